"""Length control against fits made another way, against a bootstrap, and against the lab's own measure."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from gapo.evaluate.length_control import Gamed, alpaca_controlled, at_equal_lengths
from gapo.evaluate.logistic import STRENGTHS, Rows, chosen_strength
from gapo.lab.measures import length_controlled_win_rate

COUNT = 150


class Annotations:
    """Invented annotations of a judge that likes length: games of a model and of two gamed baselines."""

    def __init__(self, seed: int, count: int = COUNT, level: float = -0.5):
        rng = np.random.default_rng(seed)
        self.difficulty = rng.normal(0, 1, count)
        self.theirs_longer = rng.normal(300, 700, count)
        length = np.r_[rng.normal(-1.5, 1, count), rng.normal(1.5, 1, count)]
        twice = np.r_[self.difficulty, self.difficulty]
        score = -1.2 * np.tanh(self.theirs_longer / self.theirs_longer.std()) + 0.8 * self.difficulty + level
        self.preference = expit(score + rng.normal(0, 1, count))
        gamed_score = -1.2 * np.tanh(length) + 0.3 * twice + rng.normal(0, 1, 2 * count)
        self.gamed = Gamed(expit(gamed_score), length, twice)

    def controlled(self, rows=slice(None), strength=None):
        columns = (self.preference[rows], self.theirs_longer[rows], self.difficulty[rows])
        return alpaca_controlled(*columns, self.gamed, strength)

    def design(self):
        """Features, labels and weights, written out once more: the gamed rows first."""
        length = np.tanh(self.theirs_longer / np.std(self.theirs_longer, ddof=1))
        own = np.c_[length, self.difficulty, np.ones(len(length))]
        other = np.c_[np.tanh(self.gamed.length), self.gamed.difficulty, np.zeros(len(self.gamed.length))]
        weight = np.r_[np.full(len(other), 0.2 / 2), np.ones(len(own))]
        return np.r_[other, own], np.r_[self.gamed.preference, self.preference], weight


def another_fit(x, y, weight, strength):
    """The lasso as a smooth problem with bounds, w = u - v with u, v >= 0, by L-BFGS-B."""

    def cost(both):
        score = x @ (both[:3] - both[3:])
        slope = x.T @ (weight * (expit(score) - y))
        loss = weight @ -(y * np.log(expit(score)) + (1 - y) * np.log(expit(-score)))
        return loss + both.sum() / strength, np.r_[slope, -slope] + 1 / strength

    at = np.full(6, 0.1)
    for _ in range(5):  # it stops early where u and v have to shrink together; from there it starts afresh
        at = minimize(cost, at, jac=True, bounds=[(0, None)] * 6, options={"ftol": 1e-16, "gtol": 1e-10}).x
        at = np.maximum(0, np.r_[at[:3] - at[3:], at[3:] - at[:3]])
    return at[:3] - at[3:]


@pytest.mark.parametrize("strength", [0.05, 3.0, 1e4])
def test_the_fit_is_that_of_another_optimiser(strength):
    given = Annotations(0)
    found = given.controlled(strength=strength)
    expected = another_fit(*given.design(), strength)
    assert found.coefficients == pytest.approx(expected, abs=1e-5)
    assert found.value == pytest.approx(expit(expected[1] * given.difficulty + expected[2]).mean(), abs=1e-6)


def test_a_strong_lasso_leaves_nothing():
    assert not Annotations(0).controlled(strength=1e-4).coefficients.any()


@pytest.mark.parametrize("seed", [0, 1])
def test_the_strength_is_the_one_that_predicts_left_out_rows_best(seed):
    x, y, weight = Annotations(seed, count=40).design()
    folds = [[row for row in range(len(y)) if (len(y) - 1 - row) % 5 == fold] for fold in range(5)]
    errors = []
    for strength in STRENGTHS:
        total = 0.0
        for left_out in folds:
            kept = np.setdiff1d(np.arange(len(y)), left_out)
            share = expit(x[left_out] @ another_fit(x[kept], y[kept], weight[kept], strength))
            total += np.mean(-weight[left_out] * (y[left_out] * np.log(share) + (1 - y[left_out]) * np.log(1 - share)))
        errors.append(total)
    assert chosen_strength(Rows(x, y, weight), np.full(3, 1e-6)) == STRENGTHS[np.argmin(errors)]


def test_control_gives_back_what_a_judge_took_for_length():
    given = Annotations(1, count=2000, level=0.0)  # theirs are longer, and no better
    assert given.preference.mean() < 0.45
    assert given.controlled().value == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_standard_error_is_that_of_a_bootstrap_over_prompts(seed):
    given = Annotations(seed)
    found = given.controlled(strength=1e4)
    rng = np.random.default_rng(seed)
    drawn = [given.controlled(rng.integers(0, COUNT, COUNT), 1e4).value for _ in range(200)]
    assert found.standard_error == pytest.approx(np.std(drawn, ddof=1), rel=0.15)


def test_the_standard_error_at_equal_lengths_is_that_of_a_bootstrap():
    given = Annotations(3)
    rng = np.random.default_rng(3)
    picks = [rng.integers(0, COUNT, COUNT) for _ in range(200)]
    drawn = [at_equal_lengths(given.preference[rows], given.theirs_longer[rows]).value for rows in picks]
    found = at_equal_lengths(given.preference, given.theirs_longer)
    assert found.standard_error == pytest.approx(np.std(drawn, ddof=1), rel=0.15)


@pytest.mark.parametrize("seed", range(4))
def test_at_equal_lengths_it_is_the_labs_own_measure(seed):
    rng = np.random.default_rng(seed)
    ours, theirs = rng.integers(5, 30, 200), rng.integers(5, 30, 200)
    won = np.round(2 * expit(rng.normal(0.1 * (ours - theirs), 1))) / 2  # with ties
    expected = length_controlled_win_rate(won, ours, theirs)
    assert at_equal_lengths(won, theirs - ours).value == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("outcome", [0.0, 1.0])
def test_a_clean_sweep_stays_one(outcome):
    assert at_equal_lengths(np.full(9, outcome), np.arange(9)).value == outcome
