"""What a study is: a value. The command trains its runs, measures them, and hands the tables to the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapo.studies.exhibits import Exhibit
from gapo.studies.grid import Cell
from gapo.studies.rows import Rows, Tables
from gapo.studies.scale import Scale
from gapo.studies.seeds import Estimate

if TYPE_CHECKING:
    from gapo.studies.store import StoredRun

AGREES, DISAGREES, OPEN = "agrees", "disagrees", "open"


@dataclass(frozen=True)
class Claim:
    """A difference the paper found, and ours with its interval. `paper` is the paper's figure, None if only a sign.

    `upward`: whether the paper's difference is above zero. `reason`: why ours may differ, in words that can be tested.
    """

    words: str
    ours: Estimate | None
    paper: float | None = None
    upward: bool = True
    reason: str = ""
    kind: str = "points"

    @property
    def verdict(self) -> str:
        """Open unless the interval lies on one side of zero."""
        if self.ours is None or not self.ours.clear:
            return OPEN
        return AGREES if (self.ours.mean > 0) == self.upward else DISAGREES


@dataclass(frozen=True)
class Study:
    """A question, a grid of runs, a measure in two parts, and exhibits.

    `observe` looks at one run (its tables, its models, or only its recipe) and returns rows, which are kept beside the
    run; it must be a function of a module, because another process calls it. `tables` turns the rows of all runs, each
    with its cell's labels, its seed and its run, into the tables behind the exhibits. `findings` says in three
    sentences what the tables hold; `claims` sets them beside the paper. `differs` says how our setting differs.
    """

    name: str
    title: str
    question: str
    grid: Callable[[Scale], Sequence[Cell]]
    observe: Callable[[StoredRun], Rows]
    tables: Callable[[Rows], Tables]
    findings: Callable[[Tables], list[str]]
    exhibits: tuple[Exhibit, ...]
    differs: str
    claims: Callable[[Tables], list[Claim]] = lambda tables: []
    seeds: int | None = None  # else the scale's
    first_seed: int = 0
    real_model: bool = False  # a language model of its own, at every scale
    card: str | None = None  # a method whose first model's card goes beside the page
    long: bool = False  # hours: rows of its page stand for their runs, weights are not kept, the page grows run by run

    def seed_list(self, scale: Scale, asked: int | None) -> list[int]:
        """The seeds of its runs."""
        count = asked or self.seeds or scale.seeds
        return [self.first_seed + number for number in range(count)]
