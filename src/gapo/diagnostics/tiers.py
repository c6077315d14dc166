"""Who gets the weight: marked pairs (flipped, or disputed) against the others, and the marked share by tier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapo.diagnostics.intervals import DRAWS, Estimate, Numbers, bootstrap_all
from gapo.diagnostics.ranking import Marks, band

EDGES = (0.2, 0.8)


@dataclass(frozen=True)
class Contrast:
    """Mean weight of the marked pairs and of the others; `relative` is marked / others - 1."""

    marked: Estimate
    others: Estimate
    relative: Estimate
    marked_pairs: int
    other_pairs: int


@dataclass(frozen=True)
class Tier:
    """A band of the order by weight: from which share to which, how many pairs, how many of them are marked."""

    low: float
    high: float
    pairs: float  # not whole where equal weights lie across an edge
    rate: Estimate


def contrast(
    weight: Numbers, marked: Marks, *, clusters: NDArray[Any] | None = None, draws: int = DRAWS, seed: int = 0
) -> Contrast:
    """How the marked pairs are weighted against the others."""
    found = bootstrap_all(_means, weight, marked, clusters=clusters, draws=draws, seed=seed)
    return Contrast(found[0], found[1], found[2], int(marked.sum()), int((~marked).sum()))


def tiers(
    weight: Numbers,
    marked: Marks,
    edges: Sequence[float] = EDGES,
    *,
    clusters: NDArray[Any] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> tuple[Tier, ...]:
    """The share of marked pairs in the bottom 20 %, middle 60 % and top 20 % by weight."""
    bounds = _bounds(edges)

    def rates(weight: Numbers, marked: Marks) -> list[float]:
        return [_rate(band(weight, *bound), marked) for bound in bounds]

    found = bootstrap_all(rates, weight, marked, clusters=clusters, draws=draws, seed=seed)
    sizes = [float(band(weight, *bound).sum()) for bound in bounds]
    return tuple(Tier(*bound, size, rate) for bound, size, rate in zip(bounds, sizes, found, strict=True))


def tier_difference(
    weight: Numbers,
    marked: Marks,
    edges: Sequence[float] = EDGES,
    *,
    clusters: NDArray[Any] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> Estimate:
    """The marked share of the bottom tier minus that of the top tier: above 0 where low weights find marked pairs."""
    bounds = _bounds(edges)

    def difference(weight: Numbers, marked: Marks) -> list[float]:
        bottom, top = (_rate(band(weight, *bound), marked) for bound in (bounds[0], bounds[-1]))
        return [bottom - top]

    return bootstrap_all(difference, weight, marked, clusters=clusters, draws=draws, seed=seed)[0]


def _bounds(edges: Sequence[float]) -> list[tuple[float, float]]:
    return list(zip((0.0, *edges), (*edges, 1.0), strict=True))


def _rate(member: Numbers, marked: Marks) -> float:
    return float(member @ marked / member.sum())


def _means(weight: Numbers, marked: Marks) -> list[float]:
    if not marked.any() or marked.all():
        return [float("nan")] * 3
    one, other = float(weight[marked].mean()), float(weight[~marked].mean())
    return [one, other, one / other - 1 if other > 0 else float("nan")]


def as_marks(values: Numbers | NDArray[Any]) -> Marks:
    """1 and 0 (as a table's column gives them) as marks."""
    return np.asarray(values) == 1
