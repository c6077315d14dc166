"""Arena-Hard's score: a Bradley-Terry fit, which for games against one baseline is a weighted mean.

With one strength s for the model and zero for the baseline, the likelihood is greatest where
sigmoid(s) = sum of weight * preference / sum of weight, so nothing has to be fitted. The interval draws questions, not
games: the two games of a question, and the three that a double arrow counts for, are not independent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

DRAWS = 1000
LEVEL = 0.95


class Rate(NamedTuple):
    """A win rate in [0, 1] with the spread and the 95 % interval of its bootstrap."""

    value: float
    standard_error: float
    low: float
    high: float


def weighted_rate(
    preference: ArrayLike, weight: ArrayLike, question: ArrayLike, draws: int = DRAWS, seed: int = 0
) -> Rate:
    """The rate of games that say P(ours is better), with their weights; `question` says which belong together."""
    heavy = np.asarray(weight, float)
    won = np.asarray(preference, float) * heavy
    owner: NDArray[np.int64] = np.unique(np.asarray(question), return_inverse=True)[1]
    sums = np.stack([np.bincount(owner, won), np.bincount(owner, heavy)])
    count = sums.shape[1]
    times = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=draws)
    drawn = (times @ sums[0]) / (times @ sums[1])
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Rate(float(sums[0].sum() / sums[1].sum()), float(drawn.std(ddof=1)), float(low), float(high))
