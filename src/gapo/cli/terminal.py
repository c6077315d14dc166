"""How every command speaks: words for people, `--json` for programs, `--quiet` for nobody, and one kind of bar.

Notes and progress go to stderr, results to stdout. With `--json` stdout holds one JSON object and nothing else. Where
stderr is no terminal, a bar becomes a plain line now and then, and no control character is written. Rich reads
NO_COLOR.
"""

from __future__ import annotations

import json
import os
import textwrap
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

    from gapo.cli.bars import Bars

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the outcome as one JSON object.")]
WIDE = 160  # columns of a file or a pipe, which have no edge
PAUSE = 30.0  # seconds after which a plain line comes at the latest
TENTHS = 10  # of the work: plain lines come at each of them


class Voice:
    """One command's way of speaking; `speaks` is False in all processes of a run but the first."""

    def __init__(self, *, quiet: bool = False, as_json: bool = False, speaks: bool = True) -> None:
        from rich.console import Console

        self.quiet, self.as_json, self.speaks = quiet, as_json, speaks
        self.err = Console(stderr=True, highlight=False, markup=False, quiet=not speaks)
        self.out = self.err if as_json else _results(speaks)
        self.bars: Bars | None = None  # while there is work under way on a terminal

    def say(self, text: str) -> None:
        """A note on the way: what is being done, what was decided."""
        if not self.quiet:
            _write(self.err, text)

    def tell(self, *shown: Any) -> None:
        """The result for people: texts and tables. With --json it goes to stderr, the object has stdout."""
        if not self.quiet:
            for one in shown:
                _write(self.out, one)

    def give(self, result: Mapping[str, Any] | list[Any]) -> None:
        """The result for programs, where --json asks for it."""
        if self.as_json and self.speaks:
            typer.echo(json.dumps(result, indent=2, ensure_ascii=False, default=str, allow_nan=False))

    @contextmanager
    def meter(self, name: str, total: int, done: int = 0, *, brief: bool = False) -> Iterator[Meter]:
        """Work of so many parts, with a bar or lines beside it while the body runs."""
        meter = Meter(self, name, total, done, brief=brief)
        try:
            yield meter
        finally:
            meter.close()


class Meter:
    """How far a piece of work is. Meters may be open at the same time: their bars stand below each other.

    `brief` work is worth no plain line unless it takes long.
    """

    def __init__(self, voice: Voice, name: str, total: int, done: int = 0, *, brief: bool = False) -> None:
        self.voice, self.name, self.total, self.done, self.before = voice, name, total, done, done
        self._brief = brief
        self.begun = self._last = time.monotonic()
        self._task: TaskID | None = None
        if not voice.quiet and voice.speaks and voice.err.is_interactive:
            from gapo.cli.bars import Bars

            voice.bars = voice.bars or Bars(voice.err)
            self._task = voice.bars.open(name, total, done)

    def reach(self, done: int, words: str = "", seconds_left: float | None = None) -> None:
        """So many parts are done. `words` are the numbers worth seeing; time left is reckoned if not given."""
        before, self.done = self.done, done
        if self._task is not None and self.voice.bars is not None:
            self.voice.bars.move(self._task, done, words, self._left(seconds_left))
        elif self._due(before):
            self._last = time.monotonic()
            self.voice.say(
                "  ".join(filter(None, (f"{self.name} {done}/{self.total}", words, self._left(seconds_left))))
            )

    def over(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The batches one by one, counted as they are done."""
        for number, batch in enumerate(batches, start=1):
            yield batch
            self.reach(number)

    def close(self) -> None:
        """The bar goes; what is printed afterwards stands in its place."""
        if self._task is not None and self.voice.bars is not None and self.voice.bars.close(self._task):
            self.voice.bars = None
        self._task = None

    @property
    def drawn(self) -> bool:
        """Whether there is a bar now, which leaves nothing behind when it goes."""
        return self._task is not None

    def _due(self, before: int) -> bool:
        """At the first part, at each tenth of the work, at the last, and when nothing was said for long."""
        if self.done <= before:
            return False
        tenth = self.done * TENTHS // self.total > before * TENTHS // self.total
        told = not self._brief and (tenth or before == self.before)
        return told or time.monotonic() - self._last >= PAUSE

    def _left(self, known: float | None) -> str:
        from gapo.studies.times import in_words

        gone, spent = self.done - self.before, time.monotonic() - self.begun
        if self.done >= self.total or gone <= 0:
            return f"{in_words(spent)} in all" if gone > 0 else ""
        return f"about {in_words(known if known is not None else spent / gone * (self.total - self.done))} left"


def only_our_words(voice: Voice) -> None:
    """Other libraries speak when something is wrong; our warnings stand above the bar, or are left out with --quiet."""
    import logging
    import warnings

    import transformers
    from rich.logging import RichHandler

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    others = "(torch|transformers|accelerate|peft|huggingface_hub)"
    warnings.filterwarnings("ignore", module="" if voice.quiet else others)
    level = logging.ERROR if voice.quiet else logging.NOTSET
    logger = logging.getLogger("gapo")
    logger.handlers = [RichHandler(level, voice.err, show_time=False, show_path=False, show_level=True)]
    logger.propagate = False


def _write(console: Console, shown: Any) -> None:
    """Texts end their lines between words on a terminal and nowhere else; a path is never broken."""
    from rich.text import Text

    if isinstance(shown, str) and console.is_terminal:
        cut = {"width": console.width, "break_long_words": False, "break_on_hyphens": False}
        shown = "\n".join(textwrap.fill(line, **cut) for line in shown.split("\n"))  # type: ignore[arg-type]
    console.print(shown, soft_wrap=isinstance(shown, str) or (isinstance(shown, Text) and not console.is_terminal))


def _results(speaks: bool) -> Console:
    """Where results go: a file or a pipe has no edge to fit tables into, unless COLUMNS gives it one."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, quiet=not speaks)
    if console.is_terminal or "COLUMNS" in os.environ:
        return console
    return Console(highlight=False, markup=False, quiet=not speaks, width=WIDE)
