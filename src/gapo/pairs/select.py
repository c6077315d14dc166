"""Subsets by a per-pair score, for instance the weight or the gap of a finished run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from gapo.errors import InputError, did_you_mean
from gapo.pairs.pair import PairSet

STREAM = 2  # not the stream of `flip`: the random control must not pick the flipped pairs
Scores = Mapping[str, float] | Sequence[float]

_BEST_FIRST: dict[str, Callable[[list[float], tuple[str, ...], int], list[int]]] = {
    "lowest": lambda scores, ids, seed: sorted(range(len(ids)), key=lambda i: (scores[i], ids[i])),
    "highest": lambda scores, ids, seed: sorted(range(len(ids)), key=lambda i: (-scores[i], ids[i])),
    "random": lambda scores, ids, seed: [int(i) for i in np.random.default_rng([seed, STREAM]).permutation(len(ids))],
}

ENDS = tuple(_BEST_FIRST)


def select(pairs: PairSet, scores: Scores, fraction: float, keep: str = "lowest", seed: int = 0) -> PairSet:
    """The round(fraction * n) pairs with the lowest or highest scores, or as many at random, in their old order.

    Equal scores are decided by the pair's id, so the choice does not depend on the order of the pairs. Scores belong to
    ids (a mapping) or to positions (a sequence); "random" is the control and reads none of them.
    """
    if keep not in _BEST_FIRST:
        raise InputError(f"unknown choice keep={keep!r}; {did_you_mean(keep, _BEST_FIRST)}")
    if not 0 < fraction <= 1:
        raise InputError(f"a fraction to keep must lie above 0 and at most at 1, not {fraction}")
    count = round(fraction * len(pairs))
    if count == 0:
        raise InputError(f"a fraction of {fraction} keeps none of {len(pairs)} pairs; ask for more")
    aligned = [] if keep == "random" else _aligned(scores, pairs)
    return pairs.take(sorted(_BEST_FIRST[keep](aligned, pairs.ids, seed)[:count]))


def _aligned(scores: Scores, pairs: PairSet) -> list[float]:
    if isinstance(scores, Mapping):
        without = [name for name in pairs.ids if name not in scores]
        if without:
            raise InputError(
                f"{len(without)} of {len(pairs)} pairs have no score (first: {without[0]}); score all of them"
            )
        values = [float(scores[name]) for name in pairs.ids]
    else:
        values = [float(score) for score in scores]
        if len(values) != len(pairs):
            raise InputError(f"{len(values)} scores for {len(pairs)} pairs; give one for each, or a mapping by id")
    unclear = [name for name, value in zip(pairs.ids, values, strict=True) if np.isnan(value)]
    if unclear:
        raise InputError(
            f"{len(unclear)} scores are not a number (first: pair {unclear[0]}); leave these pairs out first"
        )
    return values
