"""Means over seeds with their 95 % interval, and differences on the same seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf
from typing import Any

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from gapo.studies.rows import Row, Rows, grouped, number

EXACT_UP_TO = 6  # values: 6^6 resamples are counted out, more are drawn
DRAWS = 20_000
BY_STUDENT = 3  # values: no resample of them goes beyond the outermost, and the mean does once in four times
ENOUGH = 3  # seeds: of two nothing is called clear
NO_WIDTH = 1e-9  # of an interval: three values that happen to be equal say nothing about their spread
HELD = {2: 0.50, 3: 0.95, 4: 0.87, 5: 0.92}  # how often such an interval holds the mean of normal values
ACCURACIES = ("accuracy", "accuracy_before", "likelihood_accuracy", "score", "skill", "win_rate", "lc_win_rate")
AREAS = ("area", "weight_area", "margin_area", "length_term_area", "least", "most")
PARTS = ("bottom", "middle", "top", "precision", "estimated", "share", "positive", "top_overlap")
LIMITS = {  # a mean of what lies between them lies there too, and where it may be ends there
    **dict.fromkeys((*ACCURACIES, *AREAS, *PARTS), (0.0, 1.0)),
    **dict.fromkeys(("kl", "drift", "seconds"), (0.0, inf)),
}


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds; of a single seed no interval is known."""

    mean: float
    low: float | None
    high: float | None
    seeds: int

    @property
    def clear(self) -> bool:
        """Whether the interval lies on one side of zero; not of two seeds, nor of three that are equal."""
        if self.low is None or self.high is None or self.seeds < ENOUGH:
            return False
        spread = self.seeds > BY_STUDENT or self.high - self.low > NO_WIDTH
        return spread and not self.low <= 0 <= self.high

    def within(self, least: float, most: float) -> Estimate:
        """The same of a quantity that nowhere leaves these limits."""
        if self.low is None or self.high is None:
            return self
        return Estimate(self.mean, max(self.low, least), min(self.high, most), self.seeds)

    def above(self, level: float) -> Estimate:
        """How far it lies above a level."""
        low, high = (None if end is None else end - level for end in (self.low, self.high))
        return Estimate(self.mean - level, low, high, self.seeds)


def estimate(values: Iterable[float]) -> Estimate | None:
    """The mean and its expanded percentile bootstrap interval; of few values all resamples, without random numbers.

    Of three values Student's interval, mean +- t * s / sqrt(3): wide, and right for normal values.
    """
    found = np.array(list(values), dtype=np.float64)
    if not len(found):
        return None
    if len(found) == 1:
        return Estimate(float(found[0]), None, None, 1)
    if len(found) == BY_STUDENT:
        half = float(student.ppf(0.975, BY_STUDENT - 1) * found.std(ddof=1) / np.sqrt(BY_STUDENT))
        return Estimate(float(found.mean()), float(found.mean()) - half, float(found.mean()) + half, BY_STUDENT)
    tail = _tail(len(found))
    low, high = np.quantile(_resampled_means(found), (tail, 1 - tail))
    return Estimate(float(found.mean()), float(low), float(high), len(found))


def _tail(count: int) -> float:
    """Which resamples to cut off at each end (Hesterberg 2015): Phi(-sqrt(n/(n-1)) * t), t Student's with n-1 degrees.

    Plain percentiles of few values are far too narrow: of five the means lie in them 83 times in 100, not 95.
    """
    return float(norm.cdf(-np.sqrt(count / (count - 1)) * student.ppf(0.975, count - 1)))


def _resampled_means(values: np.ndarray) -> np.ndarray:
    count = len(values)
    if count <= EXACT_UP_TO:
        chosen = np.array(list(product(range(count), repeat=count)))
    else:
        chosen = np.random.default_rng(0).integers(0, count, (DRAWS, count))
    means: np.ndarray = values[chosen].mean(axis=1)
    return means


def columns_of(name: str, found: Estimate | None) -> Row:
    """The estimate as columns: the mean under its name, `_low` and `_high`."""
    if found is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    return {name: found.mean, f"{name}_low": found.low, f"{name}_high": found.high}


def summarised(rows: Iterable[Row], by: Sequence[str], values: Sequence[str]) -> Rows:
    """One row for each group: the mean over its seeds of every value, with its interval, and the number of seeds."""
    return [
        {
            **dict(zip(by, key, strict=True)),
            **{column: cell for name in values for column, cell in columns_of(name, of_rows(group, name)).items()},
            "seeds": len({row["seed"] for row in group}),
        }
        for key, group in grouped(rows, by).items()
    ]


def of_rows(rows: Iterable[Row], name: str) -> Estimate | None:
    """The mean of one value over rows; its interval goes no further than the value can."""
    found = estimate(value for row in rows if (value := number(row.get(name))) is not None)
    return found.within(*LIMITS[name]) if found is not None and name in LIMITS else found


def paired(ours: Iterable[Row], theirs: Iterable[Row], name: str, *, ratio: bool = False) -> Estimate | None:
    """The difference (or ratio) on the seeds that both have."""
    left, right = _by_seed(ours, name), _by_seed(theirs, name)
    shared = sorted(left.keys() & right.keys())
    return estimate(left[seed] / right[seed] if ratio else left[seed] - right[seed] for seed in shared)


def _by_seed(rows: Iterable[Row], name: str) -> dict[Any, float]:
    return {row["seed"]: value for row in rows if (value := number(row.get(name))) is not None}


def minus(rows: Rows, ours: str, others: Iterable[str], values: Sequence[str], by: Sequence[str] = ()) -> Rows:
    """One method minus each other on the same seeds, in every group; methods that share no seed are left out."""
    return [
        {**dict(zip(by, key, strict=True)), "method": other, **columns, "seeds": found.seeds}
        for key, group in grouped(rows, by).items()
        for other in others
        for differences in [{name: paired(_of(group, ours), _of(group, other), name) for name in values}]
        for found in [next((one for one in differences.values() if one is not None), None)]
        if found is not None
        for columns in [{k: v for name, one in differences.items() for k, v in columns_of(name, one).items()}]
    ]


def _of(rows: Rows, method: str) -> Rows:
    return [row for row in rows if row["method"] == method]
