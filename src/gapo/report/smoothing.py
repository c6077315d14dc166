"""Curves made readable: a running mean over the noise of single steps, and fewer points for a long run."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from gapo.report.statistics import Numbers

Columns = Mapping[str, Numbers]
SMOOTH_FROM = 40  # steps; shorter curves are shown as they are


def smoothing_window(count: int) -> int:
    """Steps in the running mean: a twentieth of the run, or one (none) for a short run."""
    return max(3, count // 20) | 1 if count >= SMOOTH_FROM else 1


def running_mean(values: Numbers, window: int) -> Numbers:
    """Centred mean over `window` values, narrower at the ends, blind to NaN; NaN where it sees nothing."""
    known = np.isfinite(values)
    total = np.concatenate([[0.0], np.cumsum(np.where(known, values, 0.0))])
    count = np.concatenate([[0], np.cumsum(known)])
    at = np.arange(len(values))
    low, high = np.maximum(at - window // 2, 0), np.minimum(at + window // 2 + 1, len(values))
    seen = count[high] - count[low]
    return np.where(seen > 0, (total[high] - total[low]) / np.maximum(seen, 1), np.nan)


def thinned(steps: Columns, limit: int = 800) -> Columns:
    """A long run in at most `limit` stretches: means, but the least of minima and the greatest of maxima."""
    if len(steps["step"]) <= limit:
        return steps
    edges = np.linspace(0, len(steps["step"]), limit + 1).astype(int)
    stretches = [slice(low, high) for low, high in pairwise(edges)]
    return {name: np.array([_condensed(name, values[part]) for part in stretches]) for name, values in steps.items()}


def _condensed(name: str, values: Numbers) -> float:
    known = values[np.isfinite(values)]
    if len(known) == 0:
        return float("nan")
    if name.endswith("_min"):
        return float(known.min())
    return float(known.max() if name.endswith("_max") else known.mean())
