"""How an audit speaks: the estimate, then how far it is, and its result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gapo.cli.terminal import Meter, Voice
    from gapo.model.reference import Batches, Progress
    from gapo.runs.audit import Listener


class Telling:
    """An audit as it goes, in the command's voice; a `with` closes the bar."""

    def __init__(self, voice: Voice) -> None:
        self.voice, self.left = voice, 0
        self._open = ExitStack()
        self._meter: Meter | None = None

    def __enter__(self) -> Telling:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def listener(self) -> Listener:
        from gapo.runs.audit import Listener

        return Listener(self.voice.say, self.expect, self.done)

    def judging(self) -> Progress:
        """A bar for the pass that judges labels, after that of the scores."""
        self._open.close()

        def over(slices: Batches) -> Iterator[Any]:
            whole = list(slices)
            with self.voice.meter("judging labels", sum(map(len, whole))) as meter:
                done = 0
                for part in whole:
                    yield part
                    done += len(part)
                    meter.reach(done)

        return over

    def expect(self, pairs: int, seconds: float) -> None:
        """The estimate comes before the work."""
        from gapo.report.wording import counted, duration

        self.left = pairs
        self.voice.say(f"{counted(pairs, 'pair')}, about {duration(seconds)}")
        self._meter = self._open.enter_context(self.voice.meter("pairs", pairs))

    def done(self, done: int, total: int) -> None:
        """So many pairs are scored; those from before a kill do not count."""
        if self._meter is not None:
            self._meter.reach(done - (total - self.left))


def lines_of_labels(about: Mapping[str, Any]) -> Iterator[str]:
    """What was found of wrong labels."""
    from gapo.report.label_words import apart_sentence, rate_sentence

    yield rate_sentence(about)
    yield about["check"]["words"]
    if (apart := apart_sentence(about)) is not None:
        yield apart


def lines_of(about: Mapping[str, Any]) -> Iterator[str]:
    """The result on a terminal."""
    from gapo.report.audit_words import key_numbers, result_sentence

    yield result_sentence(about)
    for name, value, note in key_numbers(about):
        yield f"  {name:<28}{value:<16}{note}"
