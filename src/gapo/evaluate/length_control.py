"""Win rates with length taken out: what the judge would say if both answers were equally long.

A logistic model of the preference with a term for the difference in length; the score is what it predicts with that
term at zero. AlpacaEval's model knows how hard each instruction is and is steadied by two baselines that play with
length; `at_equal_lengths` is the same idea for prompts about which nothing is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from gapo.evaluate.logistic import Numbers, Rows, chosen_strength, fit_logistic

GAMED_WEIGHT = 0.1  # of each row of the two gamed baselines; a model's own row weighs 1
TINY = 1e-6  # a ridge that moves no digit we show, and keeps the fit finite where every game went one way
SLOPE_RIDGE = 1e-4  # per prompt, on the slope alone: finite where length decides every win, as in the lab's measure


@dataclass(frozen=True)
class Gamed:
    """Rows of the two length-gamed baselines: preference, standardised difference in length, difficulty."""

    preference: Numbers
    length: Numbers
    difficulty: Numbers
    official: bool = False

    def rows(self) -> Rows:
        features = np.stack([np.tanh(self.length), self.difficulty, np.zeros_like(self.difficulty)], axis=1)
        return Rows(features, self.preference, np.full(len(features), GAMED_WEIGHT))


@dataclass(frozen=True)
class Controlled:
    """A length-controlled win rate in [0, 1], its standard error, and the coefficients behind it."""

    value: float
    standard_error: float
    coefficients: Numbers


def alpaca_controlled(
    preference: ArrayLike,
    theirs_longer: ArrayLike,
    difficulty: ArrayLike,
    gamed: Gamed,
    strength: float | None = None,
) -> Controlled:
    """AlpacaEval 2: logit p = theta * tanh(d / std d) + psi * difficulty + b, d = |theirs| - |ours| in characters.

    The gamed rows have no b: they hold theta and psi where the baseline's own games put them. A soft label counts as
    that share of a win. The lasso's strength C is found by cross-validation in the order of the rows, unless given.
    """
    wanted, hard = np.asarray(preference, float), np.asarray(difficulty, float)
    features = np.stack([_length_term(theirs_longer, ddof=1), hard, np.ones_like(hard)], axis=1)
    own, other = Rows(features, wanted, np.ones_like(wanted)), gamed.rows()
    rows = Rows(*(np.concatenate([getattr(other, k), getattr(own, k)]) for k in ("features", "wanted", "weight")))
    ridge = np.full(3, TINY)
    strength = chosen_strength(rows, ridge) if strength is None else strength
    return _without_length(own, rows, fit_logistic(rows, ridge, 1 / strength), ridge)


def at_equal_lengths(preference: ArrayLike, theirs_longer: ArrayLike) -> Controlled:
    """logit p = theta * tanh(d / std d) + b: no difficulty and no other models, for any set of prompts."""
    wanted = np.asarray(preference, float)
    if (won := float(wanted.mean())) in (0.0, 1.0):  # no length explains a clean sweep
        return Controlled(won, 0.0, np.array([0.0, np.inf if won else -np.inf]))
    features = np.stack([_length_term(theirs_longer, ddof=0), np.ones_like(wanted)], axis=1)
    rows = Rows(features, wanted, np.ones_like(wanted))
    ridge = np.array([SLOPE_RIDGE * len(wanted), 0.0])
    return _without_length(rows, rows, fit_logistic(rows, ridge), ridge)


def _length_term(theirs_longer: ArrayLike, ddof: int) -> Numbers:
    difference = np.asarray(theirs_longer, float)
    spread = difference.std(ddof=ddof) if len(difference) > ddof else 0.0
    return np.tanh(difference / spread) if spread > 0 else np.zeros_like(difference)


def _without_length(own: Rows, rows: Rows, fit: Numbers, ridge: Numbers) -> Controlled:
    """The mean prediction for a model's own rows with the first feature, length, at zero; and its standard error.

    Over prompts, by the sandwich: prompt i moves the fit by H^-1 x_i (y_i - p_i), and the mean by its own prediction;
    the error is the root of the sum of squares of these moves. The gamed rows, the strength of the lasso and the
    scale of the lengths stay as they are.
    """
    count = len(own.wanted)
    level = own.features * np.r_[0, np.ones(len(fit) - 1)]
    expected = expit(level @ fit)
    towards = level.T @ (expected * (1 - expected)) / count
    turned = np.linalg.solve(rows.curvature(fit) + np.diag(ridge), towards)
    surprise = own.wanted - expit(own.features @ fit)
    moves = (expected - expected.mean()) / count + (own.features @ turned) * surprise
    return Controlled(float(expected.mean()), float(np.sqrt(moves @ moves * count / max(1, count - 1))), fit)
