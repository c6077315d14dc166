"""What `gapo train` shows of a run under way: the bar with the numbers that matter, or plain lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized
from typing import Any

from gapo.cli.terminal import Meter, Voice


class RunDisplay:
    """The display of a run (`gapo.training.progress.Display`) on the command's own bars."""

    def __init__(self, voice: Voice) -> None:
        self._voice = voice
        self._meter: Meter | None = None
        self._words = ""

    def begin(self, name: str, total: int, done: int) -> None:
        self._meter = Meter(self._voice, name, total, done)

    def step(self, line: Mapping[str, Any]) -> None:
        if self._meter is not None:
            self._words = numbers(line)
            self._meter.reach(int(line["step"]), self._words)

    def end(self) -> None:
        """The bar goes, and leaves the line of the last step."""
        meter, self._meter = self._meter, None
        if meter is None:
            return
        drawn = meter.drawn
        meter.close()
        if drawn:
            self._voice.say(f"{meter.name} {meter.done}/{meter.total}  {self._words}")

    def over(self, name: str, batches: Iterable[Any]) -> Iterable[Any]:
        if not isinstance(batches, Sized):
            return batches
        return self._counted(name, batches, len(batches))

    def _counted(self, name: str, batches: Iterable[Any], total: int) -> Iterable[Any]:
        with self._voice.meter(name, total, brief=True) as meter:
            yield from meter.over(batches)


def numbers(line: Mapping[str, Any]) -> str:
    """A step in a line of at most 60 characters: what it costs, whether it learns, whom it trusts."""
    parts = [f"loss {line['loss']:.3f}", f"margin {line['margin']:+.3f}", f"acc {line['accuracy']:.0%}"]
    if line["gap_mean"] is not None:
        parts.append(f"gap {line['gap_mean']:.3f}")
    parts.append(f"weight {line['weight_mean']:.2f}")
    return "  ".join(parts)
