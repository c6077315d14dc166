"""What a table says of each pair, and how well each of it finds the marked pairs (flipped, or disputed)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gapo.diagnostics.intervals import Estimate, Numbers, bootstrap
from gapo.diagnostics.ranking import area_under_roc, auroc
from gapo.diagnostics.shares import self_share
from gapo.diagnostics.tables import column, stretches
from gapo.diagnostics.tiers import as_marks
from gapo.errors import InputError, did_you_mean

SUSPICION: dict[str, int] = {
    "weight": -1,  # the method's own claim: little weight for what is brittle
    "gap": 1,
    "gap_self": 1,
    "gap_others": -1,  # a wrong label pulls against the others
    "margin": -1,
    "grad_norm": 1,
    "length_term": 1,
}
"""Which end of a signal is the suspicious one, said before looking: an area below 1/2 finds the clean pairs."""


def _length_term(table: pa.Table) -> Numbers:
    with np.errstate(divide="ignore"):
        return 1 / column(table, "chosen_tokens") + 1 / column(table, "rejected_tokens")


_MADE: dict[str, Callable[[pa.Table], Numbers]] = {
    "length_term": _length_term,  # the squared gradient norm goes with it
    "length": lambda table: column(table, "chosen_tokens") + column(table, "rejected_tokens"),
    "length_difference": lambda table: column(table, "chosen_tokens") - column(table, "rejected_tokens"),
    "self_share": lambda table: self_share(column(table, "gap_self"), column(table, "gap_others")),
}


def signal(table: pa.Table, name: str) -> Numbers:
    """A column of the table, or what is made of several."""
    if name not in _MADE and name not in table.column_names:
        raise InputError(f"unknown signal {name!r}; {did_you_mean(name, {*_MADE, *table.column_names})}")
    return _MADE[name](table) if name in _MADE else column(table, name)


@dataclass(frozen=True)
class Finder:
    """How well one signal finds the marked pairs: the area under its ROC curve, with its suspicious end on top."""

    signal: str
    area: Estimate
    pairs: int
    marked: int


def finders(
    table: pa.Table,
    marks: Numbers | None = None,
    signals: Iterable[str] = SUSPICION,
    *,
    clusters: NDArray[Any] | None = None,
    seed: int = 0,
) -> list[Finder]:
    """Each signal's area, with DeLong's interval, or one by resampling where pairs come in clusters.

    `marks` are 1, 0, or NaN where nobody knows; without them it is the column `flipped`. A signal that the table does
    not have (a run without a gradient bank has no gradient norms) is left out.
    """
    marks = column(table, "flipped") if marks is None else marks
    found = []
    for name in signals:
        values = SUSPICION.get(name, 1) * signal(table, name)
        usable = np.isfinite(values) & np.isfinite(marks)
        if usable.any():
            score, marked = values[usable], as_marks(marks[usable])
            kept = None if clusters is None else clusters[usable]
            area = auroc(score, marked)
            if kept is not None:
                area = bootstrap(area_under_roc, score, marked, clusters=kept, seed=seed)
            found.append(Finder(name, area, int(usable.sum()), int(marked.sum())))
    return found


def finders_over_training(
    table: pa.Table, count: int = 4, signals: Iterable[str] = SUSPICION
) -> list[tuple[float, list[Finder]]]:
    """The same for `count` stretches of a run, each with its mean epoch."""
    return [(epoch, finders(part, signals=tuple(signals))) for epoch, part in stretches(table, count)]
