"""Where a run stands at this moment, read from a folder that is being written to."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gapo.report.run_files import number
from gapo.report.wording import counted, duration, percent, plain
from gapo.runs.alive import is_at_work

TAIL = 65_536  # bytes of steps.jsonl that hold its last line
STARTING, TRAINING, EVALUATING, ENDED, DIED, SILENT = "starting", "training", "evaluating", "ended", "died", "silent"
GRACE, LONG = 5.0, 180.0  # seconds of silence: of a run nobody holds, of one of which that cannot be known
SHOWN = (
    ("loss", "loss"),
    ("margin", "margin"),
    ("accuracy", "accuracy"),
    ("gap_mean", "gap"),
    ("weight_mean", "weight"),
    ("self_check_ratio", "self-check"),
    ("tokens_per_second", "tokens a second"),
)
WORDS = {
    STARTING: "The run is loading or measuring the start model; no step is taken yet.",
    TRAINING: "The run is training.",
    EVALUATING: "All steps are taken; the run is being evaluated.",
    ENDED: "The run has ended.",
    DIED: "The run is no longer at work and has no result: it was stopped or killed. Go on with gapo train RECIPE "
    "--resume.",
    SILENT: "Nothing was written for {silence}; the run evaluates, saves a checkpoint, or was stopped.",
}


@dataclass(frozen=True)
class Standing:
    """A moment of a run; `stamp` changes when there is something new to draw."""

    state: str
    step: int
    total: int | None
    seconds_left: float | None
    silence: float
    last: Mapping[str, Any]
    stamp: str

    @property
    def words(self) -> str:
        """In a sentence."""
        text = WORDS[self.state].format(silence=duration(self.silence))
        if self.state != TRAINING or self.seconds_left is None:
            return text
        return f"{text} About {duration(float(round(self.seconds_left)))} left."

    def as_json(self) -> dict[str, Any]:
        """What the page is told."""
        steps = f"step {self.step:,} of {self.total:,}" if self.total else counted(self.step, "step")
        values = [(title, _shown(key, number(self.last.get(key)))) for key, title in SHOWN]
        return {
            "state": self.state,
            "words": self.words,
            "steps": steps,
            "step": self.step,
            "total": self.total,
            "last": [pair for pair in values if pair[1] is not None],
            "stamp": self.stamp,
        }


def _shown(key: str, value: float | None) -> str | None:
    if value is None:
        return None
    if key == "tokens_per_second":
        return f"{value:,.0f}"
    return percent(value) if key == "accuracy" else plain(value, 3)


@dataclass
class Watcher:
    """Looks at a run again and again; what it saw before tells how fast the run is."""

    folder: Path
    recipe: Mapping[str, Any]
    _seen: list[tuple[float, int]] = field(default_factory=list)
    _changed: tuple[float, tuple[int, ...]] | None = None

    def look(self) -> Standing:
        """The run as it is now."""
        steps, evals = self.folder / "steps.jsonl", self.folder / "evals.json"
        last = last_line(steps)
        step = int(number(last.get("step")) or 0)
        total = total_steps(self.recipe, last)
        silence = self._silence()
        state = self._state(step, total, silence, ended=has_result(evals))
        stamp = f"{state}-{step}-{_stamp(evals)}-{_stamp(self.folder / 'recipe.yaml')}"
        return Standing(state, step, total, self._seconds_left(step, total), silence, last, stamp)

    def _state(self, step: int, total: int | None, silence: float, *, ended: bool) -> str:
        if ended:
            return ENDED
        held = is_at_work(self.folder)
        if held is False and silence > GRACE:
            return DIED
        if held is None and silence > LONG:
            return SILENT
        if not step:
            return STARTING
        return EVALUATING if total and step >= total else TRAINING

    def _silence(self) -> float:
        """Seconds since any file of the run was written, or was seen to be: the files' clock may be set back."""
        names = ("steps.jsonl", "pairs.parquet", "start.json", "held_out.parquet", "recipe.yaml", "evals.json")
        stamps = tuple(_stamp(self.folder / name) for name in names)
        if self._changed is None or self._changed[1] != stamps:
            self._changed = time.monotonic(), stamps
        return max(0.0, time.monotonic() - self._changed[0], time.time() - max(stamps) / 1e9)

    def _seconds_left(self, step: int, total: int | None) -> float | None:
        """By the steps seen since the watch began; before that, by the time since the start model was measured."""
        now = time.monotonic()
        if not self._seen or step != self._seen[-1][1]:
            if self._seen and step < self._seen[-1][1]:
                self._seen.clear()  # the run went back to a checkpoint
            self._seen.append((now, step))
            del self._seen[1:-50]  # the first look, and the last ones
        if not total or step >= total:
            return None
        (since, first), (until, newest) = self._seen[max(1, len(self._seen) - 20) - 1], self._seen[-1]
        if newest - first >= 2:
            return (total - step) * (until - since) / (newest - first)
        start, begun = (_stamp(self.folder / name) / 1e9 for name in ("start.json", "recipe.yaml"))
        fresh = start >= begun > 0  # a resumed run writes its recipe anew, and its start long before
        took = _stamp(self.folder / "steps.jsonl") / 1e9 - start
        return (total - step) * took / step if fresh and step and took > 0 else None


def last_line(path: Path) -> Mapping[str, Any]:
    """The last whole line of steps.jsonl; one that is just being written is not."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL))
            lines = file.read().split(b"\n")[:-1]
    except OSError:
        return {}
    for line in reversed(lines):
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            return row
    return {}


def has_result(path: Path) -> bool:
    """Whether the run itself has written its result (an evaluation may write to the same file)."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and "after" in found


def total_steps(recipe: Mapping[str, Any], last: Mapping[str, Any]) -> int | None:
    """max_steps, or what the epochs come to: a step says which part of an epoch it ended."""
    train = recipe.get("train")
    train = train if isinstance(train, Mapping) else {}
    asked = number(train.get("max_steps"))
    if asked and asked > 0:
        return int(asked)
    step, epoch = number(last.get("step")), number(last.get("epoch"))
    epochs = number(train.get("num_train_epochs")) or 3.0  # as TrainingArguments
    return max(int(step), round(step / epoch * epochs)) if step and epoch else None


def _stamp(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
