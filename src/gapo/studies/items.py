"""What the choice of test items alone leaves open: a run with one seed has no other interval."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from gapo.evaluate.quantity import paired_difference
from gapo.studies.rows import Row, Rows, first, number
from gapo.studies.seeds import Estimate, columns_of
from gapo.training.wilson import wilson_interval

BY_ITEM = "_by_item"  # behind the name of a share: how each of its items came out
MARKS = {1.0: "+", 0.5: "=", 0.0: "-"}  # right, a tie, wrong: a character for each item, in the set's order
VALUES = {mark: value for value, mark in MARKS.items()}


def written(right: Iterable[float]) -> str:
    """How every item came out, as a row keeps it."""
    return "".join(MARKS[float(value)] for value in right)


def read(marks: str) -> NDArray[np.float64]:
    """1, 1/2 or 0 for each item."""
    return np.array([VALUES[mark] for mark in marks], dtype=np.float64)


def with_intervals(table: Rows, names: Sequence[str], count: str) -> Rows:
    """Shares of so many separate items with Wilson's interval, where seeds give none."""
    return [{**row, **{k: v for name in names for k, v in _ends(row, name, count).items()}} for row in table]


def _ends(row: Row, name: str, count: str) -> Row:
    share, items = number(row.get(name)), number(row.get(count))
    if share is None or not items or row["seeds"] != 1:
        return {}
    low, high = wilson_interval(share, items)
    return {f"{name}_low": low, f"{name}_high": high}


def minus_on_the_same_items(ours: str, theirs: str) -> Estimate | None:
    """The difference of two shares and its interval, items drawn again for both together."""
    if len(ours) != len(theirs):
        return None
    one, other = ({str(k): float(value) for k, value in enumerate(read(marks))} for marks in (ours, theirs))
    found = paired_difference(one, other)
    return None if found is None else Estimate(found.value, found.low, found.high, 1)


def by_items(differences: Rows, runs: Rows, ours: str, names: Sequence[str], by: Sequence[str]) -> Rows:
    """Differences of methods with their interval over items, where seeds give none and both runs say how each was."""
    return [{**row, **_over_items(row, runs, ours, names, by)} for row in differences]


def _over_items(row: Row, runs: Rows, ours: str, names: Sequence[str], by: Sequence[str]) -> Row:
    place = {key: row[key] for key in by}
    one, other = (first(runs, method=method, **place) or {} for method in (ours, row["method"]))
    return {
        key: value
        for name in (names if row["seeds"] == 1 else ())
        if (left := one.get(name + BY_ITEM)) and (right := other.get(name + BY_ITEM))
        if (found := minus_on_the_same_items(left, right)) is not None
        for key, value in columns_of(name, found).items()
    }
