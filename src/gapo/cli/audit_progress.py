"""How an audit speaks: a bar with the time left on a terminal, a line now and then elsewhere, and its result."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gapo.runs.audit import Listener

EVERY = 10.0  # seconds between lines where there is no terminal


class Telling:
    """On stderr, so that a result on stdout can be piped on."""

    def __init__(self, *, silent: bool) -> None:
        from rich.console import Console

        self.console = Console(stderr=True, highlight=False, quiet=silent)
        self.bar: Any = None
        self.task: Any = None
        self.begun = self.told = time.monotonic()
        self.left = 0

    def __enter__(self) -> Telling:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self.bar is not None:
            self.bar.stop()

    def listener(self) -> Listener:
        from gapo.runs.audit import Listener

        return Listener(self.say, self.expect, self.done)

    def say(self, text: str) -> None:
        self.console.print(text, markup=False, soft_wrap=True)

    def expect(self, pairs: int, seconds: float) -> None:
        """The estimate comes before the work."""
        from gapo.report.wording import counted, duration

        self.say(f"{counted(pairs, 'pair')}, about {duration(seconds)}")
        self.begun, self.told, self.left = time.monotonic(), time.monotonic(), pairs
        if self.console.is_terminal and not self.console.quiet:
            self._show()

    def done(self, done: int, total: int) -> None:
        from gapo.report.wording import duration

        if self.bar is not None:
            self.bar.update(self.task, completed=done, total=total)
            return
        now = time.monotonic()
        if done < total and now - self.told >= EVERY:
            self.told = now
            pace = (now - self.begun) / max(1, done - (total - self.left))  # of those scored now, not before a kill
            self.say(f"{done:,} of {total:,} pairs, about {duration(pace * (total - done))} left")

    def _show(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.bar = Progress(
            TextColumn("pairs"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=self.console
        )
        self.task = self.bar.add_task("pairs", total=None)
        self.bar.start()


def lines_of(about: Mapping[str, Any]) -> Iterator[str]:
    """The result on a terminal."""
    from gapo.report.audit_words import key_numbers, result_sentence

    yield result_sentence(about)
    for name, value, note in key_numbers(about):
        yield f"  {name:<28}{value:<16}{note}"
