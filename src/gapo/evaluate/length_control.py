"""Win rates with length taken out: what the judge would say if both answers were equally long.

A logistic model of the preference with a term for the difference in length; the score is what it predicts with that
term at zero. AlpacaEval's model knows how hard each instruction is and is steadied by two baselines that play with
length; `at_equal_lengths` is the same idea for prompts about which nothing is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

Numbers = NDArray[np.float64]
GAMED_WEIGHT = 0.1  # of each row of the two gamed baselines; a model's own row weighs 1
TINY = 1e-6  # a penalty that moves no digit we show, and keeps the fit finite where every game went one way
SLOPE_PENALTY = 1e-4  # per prompt, on the slope alone: finite where length decides every win, as in the lab's measure
STEPS = 100


@dataclass(frozen=True)
class Gamed:
    """Rows of the two length-gamed baselines: preference, standardised difference in length, difficulty."""

    preference: Numbers
    length: Numbers
    difficulty: Numbers
    official: bool = False


@dataclass(frozen=True)
class Controlled:
    """A length-controlled win rate in [0, 1], its standard error, and the coefficients behind it."""

    value: float
    standard_error: float
    coefficients: Numbers


def alpaca_controlled(preference: ArrayLike, theirs_longer: ArrayLike, difficulty: ArrayLike, gamed: Gamed) -> Controlled:
    """AlpacaEval 2: logit p = theta * tanh(d / std d) + psi * difficulty + b, d = |theirs| - |ours| in characters.

    The gamed rows have no b: they hold theta and psi where the baseline's own games put them. A soft label counts as
    that share of a win. The original fits with an L1 penalty chosen by cross-validation, which is next to none.
    """
    hard = np.asarray(difficulty, float)
    own = np.stack([_length_term(theirs_longer, ddof=1), hard, np.ones_like(hard)], axis=1)
    other = np.stack([np.tanh(gamed.length), gamed.difficulty, np.zeros_like(gamed.difficulty)], axis=1)
    return _controlled(own, np.asarray(preference, float), np.full(3, TINY), other, gamed.preference)


def at_equal_lengths(preference: ArrayLike, theirs_longer: ArrayLike) -> Controlled:
    """logit p = theta * tanh(d / std d) + b: no difficulty and no other models, for any set of prompts."""
    wanted = np.asarray(preference, float)
    own = np.stack([_length_term(theirs_longer, ddof=0), np.ones_like(wanted)], axis=1)
    penalty = np.array([SLOPE_PENALTY * len(wanted), TINY])
    return _controlled(own, wanted, penalty, np.empty((0, 2)), np.empty(0))


def _length_term(theirs_longer: ArrayLike, ddof: int) -> Numbers:
    difference = np.asarray(theirs_longer, float)
    spread = difference.std(ddof=ddof) if len(difference) > ddof else 0.0
    return np.tanh(difference / spread) if spread > 0 else np.zeros_like(difference)


def _controlled(own: Numbers, preference: Numbers, penalty: Numbers, other: Numbers, others: Numbers) -> Controlled:
    features = np.concatenate([own, other])
    wanted = np.concatenate([preference, others])
    weight = np.concatenate([np.ones(len(own)), np.full(len(other), GAMED_WEIGHT)])
    fit = fit_logistic(features, wanted, weight, penalty)
    level = own.copy()
    level[:, 0] = 0  # the first column is length
    expected = expit(level @ fit)
    return Controlled(float(expected.mean()), _sandwich(own, preference, fit, level, features, weight, penalty), fit)


def fit_logistic(features: Numbers, wanted: Numbers, weight: Numbers, penalty: Numbers) -> Numbers:
    """The w with the least sum of weight * cross-entropy(wanted, sigmoid(x w)) + penalty * w^2 / 2, by Newton's steps."""

    def cost(at: Numbers) -> float:
        score = features @ at
        return float(weight @ (np.logaddexp(0, score) - wanted * score) + penalty @ at**2 / 2)

    fit = np.zeros(features.shape[1])
    for _ in range(STEPS):
        share = expit(features @ fit)
        slope = features.T @ (weight * (share - wanted)) + penalty * fit
        step = np.linalg.solve(_curvature(features, weight, share, penalty), slope)
        before, length = cost(fit), 1.0
        while cost(fit - length * step) > before and length > 1e-10:
            length /= 2
        fit = fit - length * step
        if np.abs(step).max() < 1e-12 * (1 + np.abs(fit).max()):
            break
    return fit


def _curvature(features: Numbers, weight: Numbers, share: Numbers, penalty: Numbers) -> Numbers:
    return (features.T * (weight * share * (1 - share))) @ features + np.diag(penalty)


def _sandwich(
    own: Numbers,
    preference: Numbers,
    fit: Numbers,
    level: Numbers,
    features: Numbers,
    weight: Numbers,
    penalty: Numbers,
) -> float:
    """The standard error over prompts: the root of the sum of squares of what each prompt does to the score.

    Prompt i moves the fit by H^-1 x_i (y_i - p_i), and the mean by what is expected of it. The gamed rows belong to the
    benchmark and stay as they are; so does the scale of the lengths.
    """
    count = len(own)
    expected = expit(level @ fit)
    towards = level.T @ (expected * (1 - expected)) / count
    turned = np.linalg.solve(_curvature(features, weight, expit(features @ fit), penalty), towards)
    moves = (expected - expected.mean()) / count + (own @ turned) * (preference - expit(own @ fit))
    return float(np.sqrt(moves @ moves * count / max(1, count - 1)))
