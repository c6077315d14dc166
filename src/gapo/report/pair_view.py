"""What a page shows of many pairs: columns, texts and history, in the order of the ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["number", "word", "truth"]
Value = float | str | bool | None


@dataclass(frozen=True)
class PairColumn:
    """One thing known of every pair; None where it is not. `note` says in a line what it means."""

    key: str
    title: str
    kind: Kind
    values: Sequence[Value]
    note: str = ""


@dataclass(frozen=True)
class PairText:
    """A prompt and both responses, as they were given."""

    prompt: str
    chosen: str
    rejected: str


@dataclass(frozen=True)
class PairHistory:
    """A pair at the steps it was seen at: equally long series by column key."""

    steps: Sequence[int]
    series: Mapping[str, Sequence[float | None]]


@dataclass(frozen=True)
class PairView:
    """Pairs to look at. Texts and history may be missing, for all pairs or for some.

    `colours` are keys of columns that a scatter may be coloured by, the usual one first. `across` and `up` are the
    columns of its axes. `beta` and `gamma` are GAPO's, where the weight is GAPO's, for the words that explain it.
    """

    ids: Sequence[str]
    columns: Sequence[PairColumn]
    texts: Sequence[PairText | None] = ()
    history: Sequence[PairHistory | None] = ()
    colours: Sequence[str] = ()
    across: str = "margin"
    up: str = "gap"
    beta: float | None = None
    gamma: float | None = None
    notes: Sequence[str] = field(default_factory=tuple)  # what is left out, and why, in sentences

    def column(self, key: str) -> PairColumn | None:
        """The column of this key, if there is one."""
        return next((column for column in self.columns if column.key == key), None)
