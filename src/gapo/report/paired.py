"""Two sets of outcomes on the same pairs: the difference of their accuracies, and which pairs make it.

Newcombe's hybrid score interval (1998, method 10) for proportions of the same items: from the Wilson interval of each
and their correlation phi, `d - sqrt(a^2 - 2 phi a b + b^2)` to `d + sqrt(c^2 - 2 phi c e + e^2)` with a, b, c, e the
arms of the two intervals. Pairs of one prompt hang together, so variances and phi are those of sums over prompts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gapo.diagnostics.tables import column
from gapo.evaluate.quantity import share_of
from gapo.report.results import Rate, accuracy, change
from gapo.report.run_files import Run
from gapo.report.statistics import Interval, Numbers, difference

Names = NDArray[Any]
EPSILON = 1e-9


@dataclass(frozen=True)
class Outcomes:
    """How the held-out pairs of a run came out. `gain`: reward of the chosen response minus that of the rejected one.

    Right is 1 where the gain is above 0, 1/2 for a tie.
    """

    ids: Names
    prompts: Names
    subsets: Names
    columns: Mapping[str, Numbers]

    def __len__(self) -> int:
        return len(self.ids)

    def right(self, when: str = "after") -> Numbers:
        """1, 1/2 or 0 for each pair."""
        gain = self.columns[f"gain_{when}"]
        return np.where(np.isfinite(gain), (gain > 0) + 0.5 * (gain == 0), np.nan)

    def take(self, places: NDArray[Any]) -> Outcomes:
        """The pairs at these places."""
        columns = {name: values[places] for name, values in self.columns.items()}
        return Outcomes(self.ids[places], self.prompts[places], self.subsets[places], columns)


def outcomes_of(run: Run) -> Outcomes | None:
    """Pair by pair, where the run kept it and the record fits the result; None otherwise."""
    table, rate = run.held_out, accuracy(run, "after")
    if table is None or rate is None:
        return None
    names = [name for name in table.column_names if name not in ("pair_id", "prompt_id", "subset")]
    columns = {name: column(table, name) for name in names}
    ids = _words(table, "pair_id")
    prompts = _words(table, "prompt_id")
    found = Outcomes(ids, np.where(prompts == "", ids, prompts), _words(table, "subset"), columns)
    right = found.right()
    if not len(right) or not np.isfinite(right).all() or abs(float(right.mean()) - rate.value) > EPSILON:
        return None  # the record of another evaluation
    return found


def _words(table: pa.Table, name: str) -> Names:
    if name not in table.column_names:
        return np.full(table.num_rows, "", dtype=object)
    return np.array([value or "" for value in table[name].to_pylist()], dtype=object)


def change_in(run: Run) -> Rate | None:
    """After minus before training: paired where the run kept how each pair came out, else as if independent."""
    found = outcomes_of(run)
    if found is not None and np.isfinite(before := found.right("before")).all():
        return paired_change(found.right(), before, found.prompts)
    return change(accuracy(run, "after"), accuracy(run, "before"))


@dataclass(frozen=True)
class Beside:
    """Two runs on the pairs both were measured on."""

    ours: Outcomes
    base: Outcomes

    @property
    def change(self) -> Rate:
        """Accuracy of ours above the base, with its paired interval."""
        return paired_change(self.ours.right(), self.base.right(), self.ours.prompts)

    @property
    def only_ours(self) -> NDArray[np.bool_]:
        """Pairs that ours gets right and the base does not."""
        return (self.ours.right() == 1) & (self.base.right() < 1)

    @property
    def only_base(self) -> NDArray[np.bool_]:
        """Pairs that the base gets right and ours does not."""
        return (self.base.right() == 1) & (self.ours.right() < 1)

    def of_subset(self, name: str) -> Beside:
        """The pairs of one subset."""
        places = np.flatnonzero(self.ours.subsets == name)
        return Beside(self.ours.take(places), self.base.take(places))


def beside(ours: Outcomes | None, base: Outcomes | None) -> Beside | None:
    """The two on common pairs; None unless both are known and have pairs in common."""
    if ours is None or base is None:
        return None
    at = {name: place for place, name in enumerate(base.ids)}
    common = [(place, at[name]) for place, name in enumerate(ours.ids) if name in at]
    if not common:
        return None
    mine, theirs = np.array(common).T
    return Beside(ours.take(mine), base.take(theirs))


def change_between(run: Run, base: Run) -> Rate | None:
    """Accuracy of a run above another's: paired where both kept how each pair came out, else as if independent."""
    both = beside(outcomes_of(run), outcomes_of(base))
    return both.change if both is not None else change(accuracy(run, "after"), accuracy(base, "after"))


def paired_change(ours: Numbers, base: Numbers, clusters: Names) -> Rate:
    """Mean of `ours - base` with its interval."""
    first, second = share_of(ours, clusters), share_of(base, clusters)
    assert first is not None
    assert second is not None
    interval = difference(
        first.value,
        Interval(float(first.low or 0), float(first.high or 0)),
        second.value,
        Interval(float(second.low or 0), float(second.high or 0)),
        correlation(ours, base, clusters),
    )
    return Rate(first.value - second.value, interval)


def correlation(ours: Numbers, base: Numbers, clusters: Names) -> float:
    """phi of two outcomes over sums of clusters, with Newcombe's correction for few pairs; 0 where one is constant."""
    owner = np.unique(clusters.astype(str), return_inverse=True)[1]
    mine, theirs = (np.bincount(owner, values - values.mean()) for values in (ours, base))
    size = sqrt(float(mine @ mine) * float(theirs @ theirs))
    together = float(mine @ theirs)
    if size < EPSILON:
        return 0.0
    return (max(together - 0.5, 0.0) if together > 0 else together) / size
