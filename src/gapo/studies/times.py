"""How long runs took, kept beside them, so that a plan can say how long the next ones will take."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from gapo.storage import add_line
from gapo.studies.tasks import Task
from gapo.training.record import read_steps

FILE = "times.jsonl"


@dataclass(frozen=True)
class Times:
    """Seconds of finished trainings and looks by kind."""

    path: Path

    def keep(self, spent: Mapping[str, float]) -> None:
        for kind in spent:
            add_line(self.path, json.dumps({"kind": kind, "seconds": round(spent[kind], 2)}))

    def expected(self, tasks: Iterable[Mapping[str, float]]) -> list[float]:
        """Seconds for the parts of each task: of each the median of its kind, else what the part itself says."""
        by_kind: dict[str, list[float]] = {}
        for line in read_steps(self.path):
            by_kind.setdefault(line["kind"], []).append(line["seconds"])
        return [sum(median(by_kind.get(kind, [usual])) for kind, usual in parts.items()) for parts in tasks]

    def total(self, tasks: Sequence[Task], parts: Sequence[Mapping[str, float]], side_by_side: int) -> float:
        """Seconds for these parts of all of them: timed ones one by one, the others side by side."""
        expected = self.expected(parts)
        alone = sum(seconds for task, seconds in zip(tasks, expected, strict=True) if task.timed)
        return alone + (sum(expected) - alone) / side_by_side


def in_words(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
