"""What pairs.parquet says about the weights: who gets them, when, and whether length alone explains them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gapo.diagnostics.tables import column
from gapo.report.statistics import Interval, Numbers, mean_interval, relative_change, wilson

CLEAN, FLIPPED = 0.0, 1.0
TIERS = ("bottom 20\u00a0%", "middle 60\u00a0%", "top 20\u00a0%")


@dataclass(frozen=True)
class LatePairs:
    """Each pair once, with its means over the last quarter of the steps: early weights tell of the start model."""

    first_step: int
    last_step: int
    pair_id: NDArray[Any]
    columns: Mapping[str, Numbers]

    def __len__(self) -> int:
        return len(self.pair_id)

    def weights(self, label: float) -> Numbers:
        """Weights of the pairs whose label is known to be `CLEAN` or `FLIPPED`."""
        chosen: Numbers = self.columns["weight"][self.columns["flipped"] == label]
        return chosen


@dataclass(frozen=True)
class Tier:
    """How many of the pairs in a band of weights carry a flipped label."""

    name: str
    pairs: int
    flipped: int

    @property
    def rate(self) -> float:
        """Share of flipped labels."""
        return self.flipped / self.pairs

    @property
    def interval(self) -> Interval:
        """Wilson's interval; every pair is counted once."""
        return wilson(self.rate, self.pairs)


def late_pairs(table: pa.Table) -> LatePairs | None:
    """The pairs of the last quarter of the steps that have a weight; None if there are none."""
    step = column(table, "step")
    seen = np.unique(step[np.isfinite(column(table, "weight")) & np.isfinite(step)])
    if len(seen) == 0:
        return None
    first = seen[-((len(seen) + 3) // 4)]
    late = table.filter(pa.array((step >= first) & np.isfinite(column(table, "weight"))))
    names = [name for name in table.column_names if name not in ("pair_id", "step", "epoch")]
    ids, inverse = np.unique(np.array(late["pair_id"].to_pylist(), dtype=str), return_inverse=True)
    columns = {name: _mean_per_pair(column(late, name), inverse, len(ids)) for name in {*names, "flipped"}}
    return LatePairs(int(first), int(seen[-1]), ids, columns)


def _mean_per_pair(values: Numbers, inverse: NDArray[Any], count: int) -> Numbers:
    known = np.isfinite(values)
    total = np.bincount(inverse, weights=np.where(known, values, 0.0), minlength=count)
    seen = np.bincount(inverse, weights=known, minlength=count)
    return np.where(seen > 0, total / np.maximum(seen, 1), np.nan)


def tiers(pairs: LatePairs) -> tuple[Tier, ...]:
    """Flip rate in the bottom 20, middle 60 and top 20 % by weight; empty below five pairs with a known label."""
    known = np.isfinite(pairs.columns["flipped"])
    order = np.argsort(pairs.columns["weight"][known], kind="stable")
    flipped = pairs.columns["flipped"][known][order]
    if len(flipped) < 5:
        return ()
    edge = len(flipped) // 5  # bottom and top are of equal size; what does not divide goes to the middle
    parts = (flipped[:edge], flipped[edge:-edge], flipped[-edge:])
    return tuple(Tier(name, len(part), int(part.sum())) for name, part in zip(TIERS, parts, strict=True))


def flipped_against_clean(pairs: LatePairs) -> tuple[float, Interval] | None:
    """How much more (or, below zero, less) a flipped pair weighs than a clean one, as a share, with its interval."""
    return relative_change(pairs.weights(FLIPPED), pairs.weights(CLEAN))


def weights_over_training(table: pa.Table, bins: int = 20) -> Mapping[str, Numbers]:
    """Mean weight of clean and flipped pairs in up to `bins` stretches of the steps, with intervals of the means."""
    step, weight, flipped = (column(table, name) for name in ("step", "weight", "flipped"))
    known = np.isfinite(weight) & np.isfinite(step)
    stretches = [part for part in np.array_split(np.unique(step[known]), bins) if len(part)]
    columns: dict[str, list[float]] = {"step": [float(part.mean()) for part in stretches]}
    for name, label in (("clean", CLEAN), ("flipped", FLIPPED)):
        groups = [weight[known & (flipped == label) & (step >= part[0]) & (step <= part[-1])] for part in stretches]
        intervals = [mean_interval(group) for group in groups]
        columns[f"{name}_mean"] = [float(group.mean()) if len(group) else float("nan") for group in groups]
        columns[f"{name}_low"] = [interval.low for interval in intervals]
        columns[f"{name}_high"] = [interval.high for interval in intervals]
    return {name: np.array(values) for name, values in columns.items()}


def length_terms(pairs: LatePairs) -> tuple[Numbers, Numbers]:
    """`1/|w| + 1/|l|` and the weight, where both are known: the squared gradient of a margin goes with this term."""
    chosen, rejected = (pairs.columns.get(name) for name in ("chosen_tokens", "rejected_tokens"))
    if chosen is None or rejected is None:
        return np.array([]), np.array([])
    known = (chosen > 0) & (rejected > 0)
    return 1 / chosen[known] + 1 / rejected[known], pairs.columns["weight"][known]
