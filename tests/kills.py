"""Runs of the real command in processes of their own, killed or sent a signal: at a moment, or at a point of it.

The processes are forked from a server that has everything imported, so that a run costs what it computes.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow.parquet as pq
import rich.logging  # noqa: F401 (loaded by the server, not by each run)
import torch
from safetensors.torch import load_file

import gapo.cli.main
import gapo.lab.measures
import gapo.report
import gapo.runs.run
import tiny

torch.set_num_threads(1)
_SERVER = multiprocessing.get_context("forkserver")
_HERE = Path(__file__).parent
TIMES = ("_per_second", "seconds", "_runtime")  # what two runs may differ in; Trainer's train_* are of one process


@dataclass(frozen=True)
class Point:
    """The nth call of a function, named by the end of its file's path and its name; or, without names, the nth call
    of any function, Python's or C's, counted from the start of training.

    `inside` asks for a caller with this name and local variable. `signal` is sent there, and once more `again` calls
    later.
    """

    nth: int = 1
    file: str = ""
    function: str = ""
    inside: tuple[str, str] | None = None
    signal: int = signal.SIGKILL
    again: int = 0

    def hook(self) -> Callable[[FrameType, str, Any], None]:
        left, training = self.nth, False

        def at(frame: FrameType, event: str, _: Any) -> None:
            nonlocal left, training
            if self.function:
                if event != "call" or not self._is_here(frame):
                    return
            elif not training:
                training = event == "call" and frame.f_code.co_qualname == "PreferenceTrainer.train"
                return
            elif event not in ("call", "c_call"):
                return
            left -= 1
            if left == 0 or (self.again and left == -self.again):
                os.kill(os.getpid(), self.signal)

        return at

    def _is_here(self, frame: FrameType) -> bool:
        code = frame.f_code
        if code.co_name != self.function or not code.co_filename.endswith(self.file):
            return False
        if self.inside is None:
            return True
        caller = frame.f_back
        while caller is not None and caller.f_code.co_name != self.inside[0]:
            caller = caller.f_back
        return caller is not None and self.inside[1] in caller.f_locals


Fault = Callable[[], None]  # what is wrong with the machine of a run: called before it begins


def _child(arguments: list[str], folder: str, point: Point | None, counts: str | None, fault: Fault | None) -> None:
    os.chdir(folder)
    os.environ |= {"GAPO_CACHE": str(Path(folder, "cache")), "HF_HUB_OFFLINE": "1", "COLUMNS": "300", "NO_COLOR": "1"}
    words = os.open("words.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(words, 1)
    os.dup2(words, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    sys.argv = ["gapo", *arguments]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs hear none
    if fault is not None:
        fault()
    if counts is not None:
        counted = _Count()
        sys.setprofile(counted)
    elif point is not None:
        sys.setprofile(point.hook())
    try:
        gapo.cli.main.main()
    finally:
        sys.setprofile(None)
        if counts is not None:
            Path(counts).write_text(str(counted.calls))


@dataclass(frozen=True)
class Renames:
    """Writes down what every rename of the process gave a name to, absolute, a line each. Does no harm."""

    lines: str

    def __call__(self) -> None:
        handle = os.open(self.lines, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        sys.addaudithook(lambda event, words: self._hear(event, words, handle))

    @staticmethod
    def _hear(event: str, words: tuple[Any, ...], handle: int) -> None:
        if event == "os.rename":
            os.write(handle, f"{os.path.abspath(os.fspath(words[1]))}\n".encode())


@dataclass(frozen=True)
class BackwardsClock:
    """The clock on the wall goes back by an hour whenever somebody looks at it."""

    def __call__(self) -> None:
        now = time.time()
        looks = count()
        time.time = lambda: now - 3600.0 * next(looks)


def wait_until_stopped(pid: int, patience: float = 120.0) -> None:
    """Until SIGSTOP has reached the process."""
    until = time.monotonic() + patience
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < until
        time.sleep(0.05)


class _Count:
    """Calls from the start of training to the report."""

    calls = -1
    over = False

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if self.calls >= 0:
            code = frame.f_code
            self.over = self.over or (code.co_name == "_report" and code.co_filename.endswith("cli/train.py"))
            self.calls += not self.over and event in ("call", "c_call")
        elif event == "call" and frame.f_code.co_qualname == "PreferenceTrainer.train":
            self.calls = 0


def start_server() -> None:
    """The first process costs the imports; the others a fork."""
    paths = [str(_HERE), str(_HERE.parent / "src"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    _SERVER.set_forkserver_preload(["kills"])
    first = _SERVER.Process(target=time.time)
    first.start()
    first.join()


@dataclass(frozen=True)
class Place:
    """A folder with a model and pairs, and a recipe's worth of arguments."""

    folder: Path
    arguments: list[str]
    trains: bool = True  # else the arguments are the whole command

    def start(self, *more: str, point: Point | None = None, counts: str | None = None, fault: Fault | None = None):
        """A process of the command."""
        arguments = (["train", "mini", *self.arguments] if self.trains else self.arguments) + list(more)
        child = _SERVER.Process(target=_child, args=(arguments, str(self.folder), point, counts, fault))
        child.start()
        return child

    def run(
        self,
        *more: str,
        point: Point | None = None,
        seconds: float | None = None,
        count: bool = False,
        fault: Fault | None = None,
    ) -> int:
        """The exit code of the command; -9 where it was killed at the point, or after so many seconds."""
        counts = str(self.folder / "counts.txt") if count else None
        begun = time.monotonic()
        child = self.start(*more, point=point, counts=counts, fault=fault)
        child.join(seconds)
        if child.is_alive() and seconds is not None:
            os.kill(child.pid, signal.SIGKILL)
        child.join()
        self.took.append(time.monotonic() - begun)
        return int(child.exitcode or 0)

    @property
    def took(self) -> list[float]:
        return _TOOK.setdefault(self.folder, [])

    @property
    def words(self) -> str:
        return (self.folder / "words.txt").read_text()

    @property
    def calls(self) -> int:
        return int((self.folder / "counts.txt").read_text())


_TOOK: dict[Path, list[float]] = {}


def make_place(folder: Path, *arguments: str) -> Place:
    """The smallest model there is, and 16 pairs."""
    from runs_of_tests import text_rows

    folder.mkdir()
    small = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2, "max_position_embeddings": 24}
    model = tiny.llama(dtype=torch.float32, **small)
    model.save_pretrained(folder / "model")
    tiny.tiny_tokenizer().save_pretrained(folder / "model")
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in text_rows(16)))
    common = ["model.name=model", "data.train=pairs.jsonl", "data.eval_limit=4", "train.output_dir=OUT"]
    common += ["train.max_steps=8", "train.per_device_train_batch_size=2", "train.gradient_accumulation_steps=2"]
    common += ["train.save_strategy=steps", "train.save_steps=2", "train.save_total_limit=2", "train.logging_steps=3"]
    common += ["train.use_cpu=true", "train.disable_tqdm=true", "train.drift_pairs=2", "train.learning_rate=1e-3"]
    return Place(folder, [*common, *arguments])


def content(run: Path) -> dict[str, Any]:
    """Everything a run folder says, without times: to be equal, value for value and bit for bit."""
    found: dict[str, Any] = {}
    for path in sorted(run.rglob("*")):
        name = path.relative_to(run).as_posix()
        if path.is_dir() or path.name in ("report.html", "environment.json", "files.json", "training_args.bin"):
            found[name] = None  # it is there
        elif path.suffix == ".parquet":
            found[name] = pq.read_table(path).to_pydict()
        elif path.suffix == ".jsonl":
            found[name] = [_timeless(json.loads(line)) for line in path.read_text().splitlines()]
        elif path.suffix == ".json":
            found[name] = _timeless(json.loads(path.read_text()))
        elif path.suffix in (".pt", ".pth"):
            found[name] = _plain(torch.load(path, weights_only=False))
        elif path.suffix == ".safetensors":
            found[name] = {key: _plain(value) for key, value in load_file(path).items()}
        else:
            found[name] = path.read_bytes()
    return found


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: None if key.endswith(TIMES) or key.startswith("train_") else _timeless(item)
            for key, item in value.items()
        }
    return [_timeless(item) for item in value] if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    """Tensors and arrays as their bytes, so that equal means the same bits."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), tuple(value.shape), value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.tobytes() if hasattr(value, "tobytes") else value
