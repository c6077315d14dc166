"""A number with its doubt: percentile intervals by resampling, with a seed, of pairs or of clusters of pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
DRAWS = 1000
LEVEL = 0.95


class Estimate(NamedTuple):
    """A value and its 95 % interval."""

    value: float
    low: float
    high: float


def bootstrap(
    statistic: Callable[..., float],
    *columns: NDArray[Any],
    clusters: NDArray[Any] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> Estimate:
    """`statistic(*columns)` and its interval; rows are drawn with replacement, or whole clusters where they are given.

    Pairs of one prompt, or of one anchor batch, are not independent: name them as clusters.
    """
    return bootstrap_all(lambda *drawn: [statistic(*drawn)], *columns, clusters=clusters, draws=draws, seed=seed)[0]


def bootstrap_all(
    statistic: Callable[..., Sequence[float]],
    *columns: NDArray[Any],
    clusters: NDArray[Any] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> list[Estimate]:
    """The same for a statistic of several numbers. A draw that gives no number (NaN) does not count."""
    values = np.asarray(statistic(*columns), dtype=np.float64)
    rng = np.random.default_rng(seed)
    pick = _rows(len(columns[0]), rng) if clusters is None else _members(clusters, rng)
    drawn = np.array([statistic(*(column[rows] for column in columns)) for rows in (pick() for _ in range(draws))])
    return [Estimate(float(value), *_percentiles(column)) for value, column in zip(values, drawn.T, strict=True)]


def flat(found: Any, prefix: str = "") -> dict[str, Any]:
    """A finding as one row of plain values: an estimate is three columns, `name`, `name_low` and `name_high`."""
    if isinstance(found, Estimate):
        return {prefix: found.value, f"{prefix}_low": found.low, f"{prefix}_high": found.high}
    if is_dataclass(found):
        found = {field.name: getattr(found, field.name) for field in fields(found)}
    if not isinstance(found, Mapping):
        return {prefix: found}
    parts = (flat(value, f"{prefix}_{name}" if prefix else str(name)) for name, value in found.items())
    return {name: value for part in parts for name, value in part.items()}


def _rows(count: int, rng: np.random.Generator) -> Callable[[], NDArray[np.int64]]:
    return lambda: rng.integers(0, count, count)


def _members(clusters: NDArray[Any], rng: np.random.Generator) -> Callable[[], NDArray[np.int64]]:
    """Rows of as many clusters as there are, each drawn whole."""
    _, owner, counts = np.unique(clusters, return_inverse=True, return_counts=True)
    parts = np.split(np.argsort(owner, kind="stable"), np.cumsum(counts)[:-1])
    return lambda: np.concatenate([parts[i] for i in rng.integers(0, len(parts), len(parts))])


def _percentiles(drawn: Numbers) -> tuple[float, float]:
    known = drawn[np.isfinite(drawn)]
    if not len(known):
        return float("nan"), float("nan")
    low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)
