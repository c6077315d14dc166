"""What we say when the input is wrong: one sentence with the way out."""

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """The user's input is wrong. The message is the whole story: what, where, and what to do."""


class TrainingStopped(RuntimeError):
    """Training cannot go on (a non-finite number, for instance). The message names step and pairs, at most five.

    `pairs` are the ids of all that are to blame; none where it is not known which.
    """

    def __init__(self, message: str, step: int | None = None, pairs: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.step = step
        self.pairs = list(pairs)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The tail of an error about an unknown name: the nearest one, or everything there is."""
    options = sorted(known)
    near = get_close_matches(name, options, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(options)}"
