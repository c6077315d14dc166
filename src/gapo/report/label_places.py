"""Where names go so that none covers another."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise


def apart(wanted: Sequence[float], gap: float, bottom: float, top: float) -> list[float]:
    """Places at least `gap` apart, in the order of the wanted ones, each group of neighbours around its own mean.

    They stay between bottom and top where there is room for all.
    """
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    groups: list[list[int]] = []
    for i in order:
        groups.append([i])
        while len(groups) > 1 and _start(groups[-1], wanted, gap) < _start(groups[-2], wanted, gap) + gap * len(
            groups[-2]
        ):
            last = groups.pop()
            groups[-1] += last
    places = [0.0] * len(wanted)
    for group in groups:
        start = _start(group, wanted, gap)
        span = gap * (len(group) - 1)
        start = min(max(start, bottom), max(bottom, top - span))
        for rank, i in enumerate(group):
            places[i] = start + rank * gap
    return _in_order(places, order, gap)


def _start(group: Sequence[int], wanted: Sequence[float], gap: float) -> float:
    return sum(wanted[i] for i in group) / len(group) - gap * (len(group) - 1) / 2


def _in_order(places: list[float], order: Sequence[int], gap: float) -> list[float]:
    """Groups that were moved away from an edge may have come too close to the next one."""
    for before, after in pairwise(order):
        places[after] = max(places[after], places[before] + gap)
    return places
