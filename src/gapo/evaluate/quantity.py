"""A measured number with its 95 % interval and the items behind it, and the difference of two on the same items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gapo.diagnostics.intervals import Numbers, bootstrap
from gapo.training.wilson import wilson_interval

Clusters = Sequence[str] | NDArray[Any] | None


class Quantity(NamedTuple):
    """A value, its interval where there is one, and the number of items."""

    value: float
    low: float | None
    high: float | None
    n: int


def share_of(won: Numbers, clusters: Clusters = None) -> Quantity | None:
    """The mean of wins (1, a tie 1/2, 0) with Wilson's interval; None of no items.

    Items of one cluster (pairs of one prompt) hang together: n is then the number of separate items that would vary as
    much, n_eff = p (1 - p) / var with var = sum_c (sum_{i in c} (x_i - p))^2 / n^2. Separate items have n_eff = n.
    """
    won = np.asarray(won, dtype=np.float64)
    if not len(won):
        return None
    share, n = float(won.mean()), len(won)
    owner = np.arange(n) if clusters is None else np.unique(np.asarray(clusters), return_inverse=True)[1]
    variance = float((np.bincount(owner, won - share) ** 2).sum()) / n**2
    spread = share * (1 - share)
    separate = spread / variance if variance > 1e-18 and spread > 0 else float(owner.max() + 1)
    low, high = wilson_interval(share, min(n, max(1.0, separate)))
    return Quantity(share, low, high, n)


def mean_of(values: Numbers, clusters: Clusters = None, weights: NDArray[Any] | None = None) -> Quantity | None:
    """The mean with an interval by resampling items, or whole clusters; weighted by tokens, it is a mean per token."""
    values = np.asarray(values, dtype=np.float64)
    if not len(values):
        return None
    weights = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=np.float64)
    groups = None if clusters is None else np.asarray(clusters)
    if len(values if groups is None else np.unique(groups)) < 2:
        return Quantity(float(np.average(values, weights=weights)), None, None, len(values))
    found = bootstrap(_weighted, values, weights, clusters=groups)
    return Quantity(found.value, found.low, found.high, len(values))


def _weighted(values: Numbers, weights: Numbers) -> float:
    return float((values * weights).sum() / weights.sum())


def paired_difference(
    ours: Mapping[str, float], theirs: Mapping[str, float], clusters: Mapping[str, str] | None = None
) -> Quantity | None:
    """Mean of (ours - theirs) over the items both were measured on, resampled together; None where there are none."""
    both = [name for name in ours if name in theirs]
    groups = None if clusters is None else [clusters.get(name, name) for name in both]
    return mean_of(np.array([ours[name] - theirs[name] for name in both]), groups)


def scaled(found: Quantity | None, factor: float) -> Quantity | None:
    """In another unit: a share as a percentage, for instance."""
    if found is None:
        return None
    low, high = (None if end is None else factor * end for end in (found.low, found.high))
    return Quantity(factor * found.value, low, high, found.n)


def as_json(found: Quantity | None) -> dict[str, Any] | None:
    """The quantity as an object of evals files."""
    return None if found is None else found._asdict()
