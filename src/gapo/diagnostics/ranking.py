"""How two orders of the same pairs compare, and how well a score orders the marked pairs before the others."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from scipy.stats import norm, rankdata

from gapo.diagnostics.intervals import DRAWS, LEVEL, Estimate, Numbers, bootstrap

Z = float(norm.ppf((1 + LEVEL) / 2))
Marks = NDArray[np.bool_]


def rank_correlation(left: Numbers, right: Numbers) -> float:
    """Spearman's; equal values share the mean of their ranks. NaN where one side is constant."""
    return correlation(rankdata(left), rankdata(right))


def correlation(left: Numbers, right: Numbers) -> float:
    """Pearson's; NaN where one side is constant."""
    if len(left) < 2:
        return float("nan")
    left, right = left - left.mean(), right - right.mean()
    length = sqrt(float(left @ left) * float(right @ right))
    return float(left @ right) / length if length > 0 else float("nan")


def spearman(
    left: Numbers, right: Numbers, *, clusters: NDArray[Any] | None = None, draws: int = DRAWS, seed: int = 0
) -> Estimate:
    """Rank correlation with its interval."""
    return bootstrap(rank_correlation, left, right, clusters=clusters, draws=draws, seed=seed)


def band(values: Numbers, low: float, high: float) -> Numbers:
    """How much each value belongs to the band between two shares of the order, lowest first: 1, 0, or a part.

    Equal values across an edge belong to each side in the same part, so the answer does not depend on how pairs stand.
    """
    n = len(values)
    ends = rankdata(values, method="max")
    starts = rankdata(values, method="min") - 1
    inside = np.minimum(ends, high * n) - np.maximum(starts, low * n)
    return np.asarray(np.clip(inside, 0, None) / (ends - starts), dtype=np.float64)


def top_overlap(left: Numbers, right: Numbers, share: float = 0.2) -> float:
    """The part of the top `share` by one order that is in the top by the other; chance gives `share`."""
    one, other = band(left, 1 - share, 1), band(right, 1 - share, 1)
    return float(one @ other / one.sum())


def log_spread(values: Numbers) -> float:
    """Standard deviation of the logarithm over the values above 0; others have none."""
    above = values[values > 0]
    return float(np.log(above).std(ddof=1)) if len(above) > 1 else float("nan")


def auroc(score: Numbers, marked: Marks) -> Estimate:
    """P(a marked pair scores above another one), a tie counting one half, with DeLong's interval.

    The interval is symmetric in the logit, so it stays between 0 and 1. NaN without both kinds of pairs.
    """
    area, marked_parts, other_parts = _placements(score, marked)
    if not np.isfinite(area) or min(len(marked_parts), len(other_parts)) < 2:
        return Estimate(area, float("nan"), float("nan"))
    error = sqrt(_variance(marked_parts, other_parts))
    if error == 0 or area in (0.0, 1.0):
        return Estimate(area, area, area)
    half = Z * error / (area * (1 - area))
    return Estimate(area, float(expit(logit(area) - half)), float(expit(logit(area) + half)))


def area_under_roc(score: Numbers, marked: Marks) -> float:
    """The area alone."""
    return _placements(score, marked)[0]


def auroc_difference(score: Numbers, other: Numbers, marked: Marks) -> Estimate:
    """By how much one score beats another on the same pairs, with DeLong's interval for paired areas."""
    one, ones_marked, ones_others = _placements(score, marked)
    two, twos_marked, twos_others = _placements(other, marked)
    difference = one - two
    if not np.isfinite(difference) or min(len(ones_marked), len(ones_others)) < 2:
        return Estimate(difference, float("nan"), float("nan"))
    half = Z * sqrt(_variance(ones_marked - twos_marked, ones_others - twos_others))
    return Estimate(difference, difference - half, difference + half)


def _placements(score: Numbers, marked: Marks) -> tuple[float, Numbers, Numbers]:
    """The area; for each marked pair the share of others it beats, and for each other pair the share that beat it."""
    chosen, rest = score[marked], score[~marked]
    m, n = len(chosen), len(rest)
    if not m or not n:
        return float("nan"), np.array([]), np.array([])
    together = rankdata(np.concatenate([chosen, rest]))
    beats = (together[:m] - rankdata(chosen)) / n
    beaten = 1 - (together[m:] - rankdata(rest)) / m
    return float(beats.mean()), beats, beaten


def _variance(marked_parts: Numbers, other_parts: Numbers) -> float:
    """DeLong, DeLong and Clarke-Pearson 1988: the two samples' parts vary on their own."""
    return float(marked_parts.var(ddof=1) / len(marked_parts) + other_parts.var(ddof=1) / len(other_parts))
