"""The standard error of a length-controlled win rate, as what it is: how far each prompt's weight moves the score."""

from __future__ import annotations

import warnings
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from scipy.special import expit

from gapo.evaluate.length_control import Gamed, alpaca_controlled, at_equal_lengths

COUNT = 40


def drawn(seed):
    rng = np.random.default_rng(seed)
    hard, longer = rng.normal(0, 1, COUNT), rng.normal(300, 700, COUNT)
    preference = expit(rng.normal(0.8 * hard - longer / 700, 1))
    gamed = Gamed(rng.uniform(0, 1, 2 * COUNT), rng.normal(0, 1.5, 2 * COUNT), rng.normal(0, 1, 2 * COUNT))
    return preference, longer, hard, gamed


def refitted(start, own, others, weight, ridge, lasso):
    """The fit with these weights of the own rows, by Newton's steps from a fit nearby."""
    (x, y), (other_x, other_y) = own, others
    x, y, w = np.r_[other_x, x], np.r_[other_y, y], np.r_[np.full(len(other_x), 0.1), weight]
    fit = start.copy()
    for _ in range(30):
        p = expit(x @ fit)
        slope = x.T @ (w * (p - y)) + ridge * fit + lasso * np.sign(fit)
        fit = fit - np.linalg.solve(x.T @ (x * (w * p * (1 - p))[:, None]) + np.diag(ridge), slope)
    return fit


def error_by_weights(fit, own, others, ridge, lasso=0.0):
    """Root of n / (n - 1) times the sum of squares of d score / d weight, by central differences."""
    level = own[0].copy()
    level[:, 0] = 0

    def score(weight):
        return weight @ expit(level @ refitted(fit, own, others, weight, ridge, lasso)) / weight.sum()

    count = len(level)
    moves = [(score(1 + e) - score(1 - e)) / 2e-4 for e in 1e-4 * np.eye(count)]
    return np.sqrt(np.sum(np.square(moves)) * count / (count - 1))


@pytest.mark.parametrize("seed", range(3))
def test_alpacaevals_error_is_that_of_moving_weights(seed):
    preference, longer, hard, gamed = drawn(seed)
    found = alpaca_controlled(preference, longer, hard, gamed, strength=1e3)
    own = np.c_[np.tanh(longer / longer.std(ddof=1)), hard, np.ones(COUNT)], preference
    others = np.c_[np.tanh(gamed.length), gamed.difficulty, np.zeros(2 * COUNT)], gamed.preference
    expected = error_by_weights(found.coefficients, own, others, np.full(3, 1e-6), 1e-3)
    assert found.standard_error == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_the_error_at_equal_lengths_is_that_of_moving_weights(seed):
    preference, longer, *_ = drawn(seed)
    found = at_equal_lengths(preference, longer)
    own = np.c_[np.tanh(longer / longer.std()), np.ones(COUNT)], preference
    nobody = np.zeros((0, 2)), np.zeros(0)
    ridge = np.array([1e-4 * COUNT, 0.0])
    assert found.coefficients == pytest.approx(refitted(found.coefficients, own, nobody, np.ones(COUNT), ridge, 0))
    assert found.standard_error == pytest.approx(error_by_weights(found.coefficients, own, nobody, ridge), rel=1e-4)
    assert found.value == pytest.approx(expit(found.coefficients[1]))


@pytest.mark.parametrize(("outcome", "level"), [(0.0, -np.inf), (1.0, np.inf)])
def test_a_clean_sweep_leaves_nothing_to_doubt_and_nothing_to_length(outcome, level):
    found = at_equal_lengths(np.full(9, outcome), np.arange(9))
    assert (found.value, found.standard_error) == (outcome, 0)
    assert found.coefficients.tolist() == [0, level]


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_lengths_count_in_units_of_their_spread(scale):
    preference, longer, hard, gamed = drawn(5)
    short = (
        at_equal_lengths(preference, longer * scale),
        alpaca_controlled(preference, longer * scale, hard, gamed, 1.0),
    )
    assert [each.value for each in short] == pytest.approx(
        [at_equal_lengths(preference, longer).value, alpaca_controlled(preference, longer, hard, gamed, 1.0).value]
    )


def test_answers_that_all_differ_alike_say_nothing_of_length():
    preference, _, hard, gamed = drawn(6)
    same = np.full(COUNT, 120.0)
    found = at_equal_lengths(preference, same)
    assert found.value == pytest.approx(preference.mean())
    assert found.coefficients[0] == 0
    assert alpaca_controlled(preference, same, hard, gamed, 1.0).value == pytest.approx(
        alpaca_controlled(preference, same * 0, hard, gamed, 1.0).value
    )


def test_one_prompt_has_a_score_and_no_warning():
    gamed = drawn(7)[3]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alone = alpaca_controlled([0.7], [50.0], [0.1], gamed, 1e3)
        assert at_equal_lengths([0.7], [50.0]).value == pytest.approx(0.7)
        other_way = alpaca_controlled([0.7], [-50.0], [0.1], gamed, 1e3)
    assert 0 < alone.value < 1
    assert np.isfinite(alone.standard_error)
    assert alone.value == other_way.value  # one length has no spread to be measured by


def test_two_prompts_are_the_fewest_with_an_error():
    preference, longer = np.array([0.3, 0.8]), np.array([-200.0, 900.0])
    found = at_equal_lengths(preference, longer)
    own = np.c_[np.tanh(longer / longer.std()), np.ones(2)], preference
    nobody, ridge = (np.zeros((0, 2)), np.zeros(0)), np.array([2e-4, 0.0])
    assert found.standard_error == pytest.approx(error_by_weights(found.coefficients, own, nobody, ridge), rel=1e-3)


def test_rows_are_official_only_where_it_is_said_and_values_are_frozen():
    gamed = drawn(8)[3]
    assert gamed.official is False
    for frozen in (gamed, gamed.rows(), at_equal_lengths([0.0, 1.0], [1.0, 2.0])):
        with pytest.raises(FrozenInstanceError):
            frozen.wanted = 1
