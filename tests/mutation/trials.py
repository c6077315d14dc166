"""One mutant, one process: forked from one that has imported the heavy libraries, so that a trial takes a second."""

from __future__ import annotations

import ast
import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import math
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

import pytest
from hypothesis import Phase, settings

from mutation.operators import Mutant
from mutation.targets import ROOT, source_of

HEAVY = (
    "accelerate",
    "datasets",
    "huggingface_hub",
    "jaxtyping",
    "peft",
    "scipy.optimize",
    "scipy.special",
    "torch.distributed.tensor",
    "torch.utils.flop_counter",
    "transformers.models.gemma2.modeling_gemma2",
    "transformers.models.gpt_neox.modeling_gpt_neox",
    "transformers.models.llama.modeling_llama",
    "transformers.models.mistral.modeling_mistral",
    "transformers.models.qwen2.modeling_qwen2",
    "transformers.trainer",
    "trl",
    "typer.testing",
)
QUIET = ("-x", "-q", "--tb=no", "--no-header", "-p", "no:cacheprovider", "-p", "no:unraisableexception")
KILLED, TIMED_OUT, SURVIVED = "killed", "timed out", "survived"
SECONDS = 6  # that the cases of one test may take, while it is watched
MORE_MEMORY = 6 * 2**30  # bytes a mutant may take on top of what the server has


@dataclass(frozen=True)
class Baseline:
    """What the tests do without a mutant: seconds of each, and the lines of each module that it runs."""

    seconds: dict[str, float]
    lines: dict[str, dict[str, list[int]]]  # module -> test -> lines

    def tests_for(self, module: str, mutant: Mutant) -> list[str]:
        """The tests that run the mutant's statement; all of them where it runs at import.

        Of a test whose cases take long together, some: what it does not notice in those counts as not noticed.
        """
        first, last = mutant.statement
        found: dict[str, list[str]] = {}
        for test, lines in self.lines[module].items():
            if mutant.at_import or any(first <= line <= last for line in lines):
                found.setdefault(test.split("[")[0], []).append(test)
        return [case for cases in found.values() for case in cases[:: self._every(cases)]]

    def _every(self, cases: Sequence[str]) -> int:
        return math.ceil(sum(self.seconds[case] for case in cases) / SECONDS) or 1


@dataclass(frozen=True)
class Outcome:
    verdict: str
    by: str = ""  # the test that failed


def warm_up() -> None:
    """Import once what every trial needs."""
    for name in HEAVY:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # else every trial would walk through torch


def baseline(tests: dict[str, Sequence[str]]) -> Baseline:
    """Run every module's tests once and watch which lines they run."""
    watched = {str(source_of(module)): module for module in tests}
    files = list(dict.fromkeys(file for each in tests.values() for file in each))
    watch = _Watch(watched)
    said, code = _forked(lambda tell: _run(files, [watch], tell, then=watch.found), limit=1200)
    if code != 0 or "lines" not in said:
        raise SystemExit(f"the tests fail without any mutant: {said}")
    mine = {module: set(files) for module, files in tests.items()}
    lines = {
        module: {test: each for test, each in said["lines"][module].items() if test.split("::")[0] in mine[module]}
        for module in tests
    }
    return Baseline(said["seconds"], lines)


def trial(module: str, mutant: Mutant, tests: Collection[str], limit: float) -> Outcome:
    """Whether one of these tests fails, or none ends in so many seconds, where this mutant stands for the module."""
    if not tests:
        return Outcome(SURVIVED)
    files = list(dict.fromkeys(test.split("::")[0] for test in tests))

    def run(tell: Callable[[dict[str, Any]], None]) -> int:
        _install(f"gapo.{module}", source_of(module), mutant.tree)
        return _run(files, [_Only(tests)], tell)

    said, code = _forked(run, limit)
    if code is None:
        return Outcome(TIMED_OUT)
    return Outcome(SURVIVED) if code == 0 else Outcome(KILLED, said.get("failed", "import"))


# ---- in the fork ----


def _run(files: Sequence[str], plugins: list[Any], tell: Callable[..., None], then: Any = None) -> int:
    """One file after the other, so that a mutant the first one notices pays for no other."""
    first = _FirstFailure()
    for batch in [files] if then else [[file] for file in files]:
        code = int(pytest.main([*QUIET, *batch], plugins=["_hypothesis_pytestplugin", *plugins, first]))
        if code not in (0, 5):  # 5: nothing to run
            tell({"failed": first.test or batch[0]})
            return code
    tell(then() if then else {})
    return 0


class _FirstFailure:
    test = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.test:
            self.test = report.nodeid


class _Only:
    def __init__(self, tests: Collection[str]) -> None:
        self.tests = set(tests)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self.tests]


class _Watch:
    """Which lines of the watched files each test runs."""

    def __init__(self, watched: dict[str, str]) -> None:
        self.watched = watched
        self.lines: dict[str, dict[str, list[int]]] = {module: {} for module in watched.values()}
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item):  # type: ignore[no-untyped-def]
        seen: dict[str, set[int]] = {path: set() for path in self.watched}

        def line(frame: FrameType, event: str, arg: Any) -> Any:
            seen[frame.f_code.co_filename].add(frame.f_lineno)
            return line

        def call(frame: FrameType, event: str, arg: Any) -> Any:
            return line(frame, event, arg) if frame.f_code.co_filename in seen else None

        start = time.monotonic()
        threading.settrace(call)
        sys.settrace(call)
        yield
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        self.seconds[item.nodeid] = time.monotonic() - start
        for path, module in self.watched.items():
            self.lines[module][item.nodeid] = sorted(seen[path])

    def found(self) -> dict[str, Any]:
        return {"lines": self.lines, "seconds": self.seconds}


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: Path, code: CodeType) -> None:
        super().__init__(name, str(path))
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        return self._code


def _install(name: str, path: Path, tree: ast.Module) -> None:
    """From here on an import of the module gives the mutant."""
    loader = _Loader(name, path, compile(tree, str(path), "exec"))

    class Finder(importlib.abc.MetaPathFinder):
        def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> Any:
            return importlib.util.spec_from_file_location(name, loader=loader) if fullname == name else None

    sys.meta_path.insert(0, Finder())


def _forked(work: Callable[..., int], limit: float) -> tuple[dict[str, Any], int | None]:
    """What the work told and its exit code, None where it took longer than the limit."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told.json"
        child = os.fork()
        if not child:
            code = 1
            try:
                _settle()
                code = work(lambda said: told.write_text(json.dumps(said)))
            finally:
                os._exit(code)
        code = _ended(child, time.monotonic() + limit)
        return json.loads(told.read_text()) if told.exists() else {}, code


def _ended(child: int, deadline: float) -> int | None:
    """The exit code of a process; at the deadline, or when this one is interrupted, it is stopped with all its own."""
    try:
        while time.monotonic() < deadline:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.01)
    except BaseException:
        os.killpg(child, signal.SIGKILL)
        raise
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _settle() -> None:
    """A group of its own, a bound on memory, no words; gapo and tests are imported anew, from the project's root.

    Laws are tried on the same few examples each time.
    """
    os.setpgrp()
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MORE_MEMORY, size + MORE_MEMORY))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.environ |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1"}
    os.chdir(ROOT)
    sys.path[:0] = [f"{ROOT}/src", f"{ROOT}/tests"]
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "gapo" or (getattr(module, "__file__", None) or "").startswith(f"{ROOT}/tests/"):
            del sys.modules[name]
    once = [Phase.explicit, Phase.generate]  # a failure is a failure: it need not be made small
    settings.register_profile("mutation", derandomize=True, max_examples=25, deadline=None, database=None, phases=once)
    settings.load_profile("mutation")
