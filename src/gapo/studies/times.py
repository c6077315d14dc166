"""How long runs took, kept beside them, so that a plan can say how long the next ones will take."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from gapo.studies.scale import Scale
from gapo.studies.tasks import Task
from gapo.training.record import read_steps

FILE = "times.jsonl"


@dataclass(frozen=True)
class Times:
    """Seconds of finished runs by kind."""

    path: Path

    def keep(self, task: Task, seconds: float, scale: Scale, side_by_side: int) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = {"kind": task.kind, "scale": scale.name, "seconds": round(seconds, 2), "side_by_side": side_by_side}
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def expected(self, tasks: Iterable[Task], scale: Scale) -> list[float]:
        """Seconds for each task: the median of its kind, else of all runs of the scale, else the scale's word."""
        lines = read_steps(self.path)
        usual = median([line["seconds"] for line in lines if line["scale"] == scale.name] or [scale.run_seconds])
        by_kind: dict[str, list[float]] = {}
        for line in lines:
            by_kind.setdefault(line["kind"], []).append(line["seconds"])
        return [median(by_kind.get(task.kind, [usual])) for task in tasks]

    def total(self, tasks: Sequence[Task], scale: Scale, side_by_side: int) -> float:
        """Seconds for all of them: timed ones one by one, the others side by side."""
        expected = self.expected(tasks, scale)
        alone = sum(seconds for task, seconds in zip(tasks, expected, strict=True) if task.timed)
        return alone + (sum(expected) - alone) / side_by_side


def in_words(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
