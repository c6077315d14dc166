"""Logistic regression on soft labels: Newton's steps, a lasso, and its strength by cross-validation.

Small enough to need no library: three features, a few thousand rows, milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Numbers = NDArray[np.float64]
STEPS = 100
ROUNDING = 1e-14  # of a cost: some rows' worth of the last bit
STRENGTHS = np.logspace(-4, 4, 10)  # C of AlpacaEval's search: the lasso weighs 1 / C
FOLDS = 5


@dataclass(frozen=True)
class Rows:
    """Features, wanted shares in [0, 1], and the weight of each row."""

    features: Numbers
    wanted: Numbers
    weight: Numbers

    def __getitem__(self, which: NDArray[np.bool_]) -> Rows:
        return Rows(self.features[which], self.wanted[which], self.weight[which])

    def loss(self, fit: Numbers) -> Numbers:
        """Weighted cross-entropy of each row."""
        score = self.features @ fit
        return self.weight * (np.logaddexp(0, score) - self.wanted * score)

    def slope(self, fit: Numbers) -> Numbers:
        return self.features.T @ (self.weight * (expit(self.features @ fit) - self.wanted))

    def curvature(self, fit: Numbers) -> Numbers:
        share = expit(self.features @ fit)
        return (self.features.T * (self.weight * share * (1 - share))) @ self.features


def fit_logistic(rows: Rows, ridge: Numbers, lasso: float = 0.0) -> Numbers:
    """The w with the least sum of losses + ridge * w^2 / 2 + lasso * |w|, by Newton's steps with a line search."""

    def cost(at: Numbers) -> float:
        return float(rows.loss(at).sum() + ridge @ at**2 / 2 + lasso * np.abs(at).sum())

    fit = np.zeros(rows.features.shape[1])
    for _ in range(STEPS):
        slope, curvature = rows.slope(fit) + ridge * fit, rows.curvature(fit) + np.diag(ridge)
        step = _to_least(fit, slope, curvature, lasso) - fit
        before, length = cost(fit), 1.0
        worse = before + ROUNDING * (1 + abs(before))  # near the least a good step gains less than rounding hides
        while cost(fit + length * step) > worse and length > 1e-10:
            length /= 2
        fit = fit + length * step
        if np.abs(step).max() < 1e-10 * (1 + np.abs(fit).max()):
            break
    return fit


def _to_least(fit: Numbers, slope: Numbers, curvature: Numbers, lasso: float) -> Numbers:
    """Where slope (w - fit) + (w - fit) H (w - fit) / 2 + lasso |w| is least: one coordinate after the other."""
    if not lasso:
        return fit - np.linalg.solve(curvature, slope)
    at = fit.copy()
    for _ in range(1000):
        before = at.copy()
        for k in range(len(at)):
            pull = curvature[k, k] * at[k] - slope[k] - curvature[k] @ (at - fit)
            at[k] = np.sign(pull) * max(0.0, abs(pull) - lasso) / curvature[k, k]
        if np.abs(at - before).max() < 1e-12:
            break
    return at


def chosen_strength(rows: Rows, ridge: Numbers) -> float:
    """The C of the lasso 1 / C whose fits predict the left-out fifths best.

    Every fifth row is left out, and the first of equal Cs wins, as scikit-learn has it.
    """
    turn = np.arange(len(rows.wanted)) % FOLDS
    errors = np.zeros(len(STRENGTHS))
    for fold in range(FOLDS):
        kept, left_out = rows[turn != fold], rows[turn == fold]
        errors += [left_out.loss(fit_logistic(kept, ridge, 1 / strength)).mean() for strength in STRENGTHS]
    return float(STRENGTHS[np.argmin(errors)])
