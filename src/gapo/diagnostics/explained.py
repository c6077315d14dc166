"""How much of an order other signals explain: regressions on ranks, and correlations with the others held fixed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from gapo.diagnostics.intervals import DRAWS, Estimate, Numbers, bootstrap_all
from gapo.diagnostics.ranking import correlation


@dataclass(frozen=True)
class Explained:
    """R^2 of the ranks of a target by all signals, and of each signal: alone, as a correlation, given the others."""

    pairs: int
    together: Estimate
    alone: dict[str, Estimate]  # R^2 of one signal: the square of its rank correlation
    correlation: dict[str, Estimate]  # Spearman's
    partial: dict[str, Estimate]  # Spearman's between what is left of both when the other signals are taken out


def explained(
    target: Numbers,
    signals: Mapping[str, Numbers],
    *,
    clusters: NDArray[Any] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> Explained:
    """What the signals say of the target's order. Pairs without a finite value of each are left out."""
    names = tuple(signals)
    columns = np.column_stack([target, *(signals[name] for name in names)])
    known = np.isfinite(columns).all(1)
    kept = None if clusters is None else np.asarray(clusters)[known]
    found = bootstrap_all(_of_ranks, columns[known], clusters=kept, draws=draws, seed=seed)
    k = len(names)
    parts = (found[1 + part * k : 1 + (part + 1) * k] for part in range(3))
    alone, correlations, partial = (dict(zip(names, part, strict=True)) for part in parts)
    return Explained(int(known.sum()), found[0], alone, correlations, partial)


def _of_ranks(columns: NDArray[np.float64]) -> list[float]:
    """R^2 together, then R^2, correlation and partial correlation of each signal."""
    ranks = rankdata(columns, axis=0)
    ranks = ranks - ranks.mean(0)
    target, signals = ranks[:, 0], ranks[:, 1:]
    left = _residual(target, signals)
    spread = float(target @ target)
    together = 1 - float(left @ left) / spread if spread > 0 else float("nan")
    singles = [correlation(target, signal) for signal in signals.T]
    partial = [_partial(target, signals, k) for k in range(signals.shape[1])]
    return [together, *(value**2 for value in singles), *singles, *partial]


def _partial(target: Numbers, signals: NDArray[np.float64], k: int) -> float:
    others = np.delete(signals, k, axis=1)
    one, two = _residual(target, others), _residual(signals[:, k], others)
    spread = min(_share(one, target), _share(two, signals[:, k]))
    return correlation(one, two) if spread > 1e-12 else float("nan")  # nothing but rounding is left


def _share(left: Numbers, whole: Numbers) -> float:
    size = float(whole @ whole)
    return float(left @ left) / size if size > 0 else 0.0


def _residual(target: Numbers, signals: NDArray[np.float64]) -> Numbers:
    """What a least-squares fit of centred columns leaves of a centred target."""
    if not signals.shape[1]:
        return target
    fit = np.linalg.lstsq(signals, target, rcond=None)[0]
    return np.asarray(target - signals @ fit, dtype=np.float64)
