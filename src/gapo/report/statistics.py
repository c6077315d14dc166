"""The few intervals the page quotes, each by a textbook formula, so that no number stands without its doubt."""

from __future__ import annotations

from math import atanh, sqrt, tanh
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Z = 1.959963984540054  # 95 %


class Interval(NamedTuple):
    """A 95 % interval."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Whether `value` is one the data leave open."""
        return self.low <= value <= self.high


def wilson(rate: float, count: int) -> Interval:
    """Wilson's score interval of a rate seen in `count` trials; unlike the normal one it stays in [0, 1]."""
    middle = (rate + Z**2 / (2 * count)) / (1 + Z**2 / count)
    half = Z / (1 + Z**2 / count) * sqrt(rate * (1 - rate) / count + Z**2 / (4 * count**2))
    return Interval(max(0.0, middle - half), min(1.0, middle + half))


def difference(rate: float, interval: Interval, base: float, base_interval: Interval, phi: float = 0.0) -> Interval:
    """Newcombe's interval of `rate - base` from the interval of each and their correlation phi.

    phi 0 takes the two as independent. Two runs judged on the same pairs agree on many of them, so that interval is
    wider than need be: what it calls clear is clear, what it leaves open may not be.
    """

    def reach(one: float, other: float) -> float:
        return sqrt(max(one**2 - 2 * phi * one * other + other**2, 0.0))

    change = rate - base
    below = reach(rate - interval.low, base_interval.high - base)
    above = reach(interval.high - rate, base - base_interval.low)
    return Interval(max(-1.0, change - below), min(1.0, change + above))


def mean_interval(values: Numbers) -> Interval:
    """Normal interval of a mean; of a single value nothing is known, so it is open (NaN)."""
    if len(values) < 2:
        return Interval(float("nan"), float("nan"))
    half = Z * float(np.std(values, ddof=1)) / sqrt(len(values))
    return Interval(float(np.mean(values)) - half, float(np.mean(values)) + half)


def relative_change(values: Numbers, base: Numbers) -> tuple[float, Interval] | None:
    """`mean(values) / mean(base) - 1` with its interval by the delta method; None where it has no meaning."""
    if len(values) < 2 or len(base) < 2 or np.mean(base) <= 0:
        return None
    top, bottom = float(np.mean(values)), float(np.mean(base))
    variance = np.var(values, ddof=1) / len(values) + (top / bottom) ** 2 * np.var(base, ddof=1) / len(base)
    half = Z * sqrt(float(variance)) / bottom
    change = top / bottom - 1
    return change, Interval(change - half, change + half)


def ranks(values: Numbers) -> Numbers:
    """Ranks from 0; equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray(((2 * ends - counts - 1) / 2)[inverse], dtype=np.float64)


def spearman(left: Numbers, right: Numbers) -> tuple[float, Interval] | None:
    """Rank correlation and its interval (Fisher's z, variance of Bonett and Wright); None if a side is constant."""
    if len(left) < 4 or np.ptp(left) == 0 or np.ptp(right) == 0:
        return None
    value = float(np.corrcoef(ranks(left), ranks(right))[0, 1])
    if abs(value) > 1 - 1e-12:
        return value, Interval(value, value)
    half = Z * sqrt((1 + value**2 / 2) / (len(left) - 3))
    return value, Interval(tanh(atanh(value) - half), tanh(atanh(value) + half))
