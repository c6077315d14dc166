"""Where runs are kept, by the hash of their recipe, so that studies share them and a finished one is not run again."""

from __future__ import annotations

import hashlib
import inspect
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapo.pairs.yaml_text import read_yaml
from gapo.runs.recipe import Recipe
from gapo.runs.resume import RECIPE, RESULT, standing_of
from gapo.storage import whole_file
from gapo.studies.rows import Rows, read_rows, write_rows
from gapo.training.checkpoints import FOLDER as CHECKPOINTS
from gapo.training.checkpoints import PREFIX
from gapo.training.record import read_steps

if TYPE_CHECKING:
    import pyarrow as pa

STOPPED, OBSERVED, FACTS = "stopped.json", "observed", "facts.json"
WEIGHTS = (".safetensors", ".bin")
_TAKES = "usual_seconds"


@dataclass(frozen=True)
class StoredRun:
    """A run's folder, read where asked for. Of a cell that is not trained only the recipe is there."""

    folder: Path

    @cached_property
    def recipe(self) -> Recipe:
        recipe: Recipe = read_yaml((self.folder / RECIPE).read_text(encoding="utf-8"))
        return recipe

    @cached_property
    def evals(self) -> dict[str, Any]:
        return _read(self.folder / RESULT)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Seconds and peak memory of the process, for timed runs."""
        return _read(self.folder / FACTS)

    @cached_property
    def steps(self) -> Rows:
        """One row a step."""
        return read_steps(self.folder / "steps.jsonl")

    @cached_property
    def pairs(self) -> pa.Table:
        """One row a pair and step."""
        import pyarrow.parquet as pq

        return pq.read_table(self.folder / "pairs.parquet")

    @property
    def model(self) -> Path:
        """The trained model, with its adapters merged where the recipe says so."""
        merged = self.folder / "merged"
        return merged if merged.is_dir() else self.folder / "model"

    @property
    def checkpoints(self) -> dict[int, Path]:
        """Models kept on the way (`train.save_strategy`), by step."""
        found = (self.folder / CHECKPOINTS).glob(f"{PREFIX}*")
        return dict(sorted((int(path.name.removeprefix(PREFIX)), path) for path in found))


Observer = Callable[[StoredRun], Rows]


def takes(seconds: float) -> Callable[[Observer], Observer]:
    """Says what one look takes about in the lab, for plans that are made before one was measured."""

    def marked(observe: Observer) -> Observer:
        setattr(observe, _TAKES, seconds)
        return observe

    return marked


def usual_seconds(observe: Observer) -> float:
    return float(getattr(observe, _TAKES, 0.0))


@dataclass(frozen=True)
class Store:
    """A folder of runs, each under its address."""

    root: Path

    def run(self, address: str) -> StoredRun:
        return StoredRun(self.root / address)

    def trained(self, address: str) -> bool:
        """Whether the run is finished, or stopped for a reason that would stop it again."""
        return self.stopped(address) is not None or standing_of(self.root / address).finished

    def stopped(self, address: str) -> str | None:
        """Why training could not go on, if it could not."""
        path = self.root / address / STOPPED
        return str(_read(path)["reason"]) if path.is_file() else None

    def weights(self, address: str) -> list[Path]:
        """Files of the trained model that hold its weights."""
        return [path for path in self.run(address).model.glob("*") if path.suffix in WEIGHTS]

    def drop_weights(self, address: str) -> None:
        """Keep the run without its weights and checkpoints; the model's card and settings stay."""
        for path in self.weights(address):
            path.unlink()
        shutil.rmtree(self.root / address / CHECKPOINTS, ignore_errors=True)

    def forget_result(self, address: str) -> None:
        """Let a run be made again, with the same recipe."""
        (self.root / address / RESULT).unlink(missing_ok=True)

    def observed(self, address: str, observe: Observer) -> Rows | None:
        """What this observer said about the run; None if it was not asked."""
        path = self._place(address, observe)
        return read_rows(path) if path.is_file() else None

    def keep(self, address: str, observe: Observer, rows: Rows) -> None:
        write_rows(self._place(address, observe), rows)

    def _place(self, address: str, observe: Observer) -> Path:
        return self.root / address / OBSERVED / f"{observer_name(observe)}.jsonl"


def observer_name(observe: Observer) -> str:
    """Module and name with a digest of its text: an observer that was changed asks again."""
    source = hashlib.blake2b(inspect.getsource(observe).encode(), digest_size=4).hexdigest()
    return f"{observe.__module__.rsplit('.', 1)[-1]}.{observe.__name__}-{source}"


def write_json(path: Path, content: dict[str, Any]) -> None:
    with whole_file(path) as part:
        part.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return content
