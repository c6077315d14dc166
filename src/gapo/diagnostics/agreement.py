"""Pairs that two judges see differently: are they the ones with little weight?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gapo.diagnostics.intervals import DRAWS, Estimate
from gapo.diagnostics.signals import SUSPICION, Finder, finders
from gapo.diagnostics.tables import column, marks_of
from gapo.diagnostics.tiers import Contrast, Tier, as_marks, contrast, tier_difference, tiers
from gapo.errors import InputError
from gapo.pairs.judged import agreed
from gapo.pairs.pair import PairSet, Prompt


@dataclass(frozen=True)
class Disputed:
    """Weights of the disputed pairs against the agreed ones, and how well each signal finds the disputed."""

    prompts: int
    weight: Contrast  # `marked` are the disputed pairs
    tiers: tuple[Tier, ...]
    bottom_minus_top: Estimate
    finders: tuple[Finder, ...]


def disputed(table: pa.Table, pairs: PairSet, *, draws: int = DRAWS, seed: int = 0) -> Disputed:
    """A probe or a part of a run, joined by pair id with judged pairs; prompts are resampled whole."""
    marks = 1 - marks_of(table, agreed(pairs))
    usable = np.isfinite(marks) & np.isfinite(column(table, "weight"))
    if not usable.any():
        raise InputError("none of the table's pairs is among the judged ones; give the pairs that were probed")
    table, marks = table.filter(pa.array(usable)), marks[usable]
    number: dict[Prompt, int] = {}
    of_pair = {pair.id: number.setdefault(pair.prompt, len(number)) for pair in pairs}
    prompts = np.array([of_pair[name] for name in table["pair_id"].to_pylist()])
    weight, marked = column(table, "weight"), as_marks(marks)
    return Disputed(
        len(np.unique(prompts)),
        contrast(weight, marked, clusters=prompts, draws=draws, seed=seed),
        tiers(weight, marked, clusters=prompts, draws=draws, seed=seed),
        tier_difference(weight, marked, clusters=prompts, draws=draws, seed=seed),
        tuple(finders(table, marks, SUSPICION, clusters=prompts, seed=seed)),
    )
