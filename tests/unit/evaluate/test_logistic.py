"""Logistic regression: the conditions of a minimum hold on any rows, also where Newton's full step overshoots."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from gapo.evaluate import logistic
from gapo.evaluate.logistic import STRENGTHS, Rows, chosen_strength, fit_logistic

laws = settings(max_examples=30, deadline=None, derandomize=True)


def some_rows(seed: int, count: int = 20, scale: float = 1.0) -> Rows:
    rng = np.random.default_rng(seed)
    features = rng.normal(0, scale, (count, 3)) * [1.0, 3.0, 0.3]
    return Rows(features, rng.uniform(0, 1, count), rng.uniform(0.1, 2, count))


def slope_of(rows: Rows, fit: np.ndarray) -> np.ndarray:
    """Of the weighted cross-entropy: sum of w (p - y) x."""
    return sum(w * (expit(x @ fit) - y) * x for x, y, w in zip(rows.features, rows.wanted, rows.weight, strict=True))


@laws
@given(st.integers(0, 9999), st.sampled_from([0.0, 1e-6, 0.1, 5.0]), st.sampled_from([0.0, 0.01, 0.5, 3.0]))
def test_at_the_fit_no_direction_leads_down(seed, ridge, lasso):
    """A coefficient that is not zero has slope -lasso * sign; one that is zero has a slope within the lasso."""
    rows, weights = some_rows(seed), ridge * np.array([1.0, 0.5, 2.0])
    fit = fit_logistic(rows, weights, lasso)
    slope = slope_of(rows, fit) + weights * fit
    kept = fit != 0
    np.testing.assert_allclose(slope[kept], -lasso * np.sign(fit[kept]), atol=1e-6)
    assert (np.abs(slope[~kept]) <= lasso + 1e-6).all()
    assert kept.all() or lasso > 0


@pytest.mark.parametrize("seed", [13, 198, 292, 385])
def test_where_newtons_full_steps_run_away_the_fit_is_found_all_the_same(seed):
    rng = np.random.default_rng(seed)
    rows = Rows(rng.standard_cauchy((12, 5)) * 10, rng.choice([0.001, 0.999], 12), np.ones(12))
    ridge, undamped = np.full(5, 1e-6), np.zeros(5)
    with np.errstate(all="ignore"):
        for _ in range(100):
            share = expit(rows.features @ undamped)
            turn = rows.features.T @ (rows.features * (share * (1 - share))[:, None]) + np.diag(ridge)
            undamped = undamped - np.linalg.solve(turn, slope_of(rows, undamped) + ridge * undamped)
    assert np.abs(undamped).max() > 1e6
    fit = fit_logistic(rows, ridge)
    assert np.abs(slope_of(rows, fit) + ridge * fit).max() < 1e-9


@pytest.mark.parametrize("lasso", [0.0, 1e-3])
def test_where_every_game_goes_one_way_the_ridge_keeps_the_fit_finite(lasso):
    x = np.linspace(-1, 1, 12)[:, None]
    rows = Rows(x, (x[:, 0] > 0).astype(float), np.ones(12))
    fit = fit_logistic(rows, np.full(1, 1e-6), lasso)
    assert 5 < fit[0] < 1000
    assert slope_of(rows, fit)[0] + 1e-6 * fit[0] == pytest.approx(-lasso, abs=1e-6)


@laws
@given(st.integers(0, 9999))
def test_rows_know_their_loss_its_slope_and_its_curvature(seed):
    rows = some_rows(seed)
    at = np.random.default_rng(seed + 1).normal(size=3)
    share = expit(rows.features @ at)
    wanted = -rows.weight * (rows.wanted * np.log(share) + (1 - rows.wanted) * np.log(expit(-rows.features @ at)))
    np.testing.assert_allclose(rows.loss(at), wanted, rtol=1e-9)
    np.testing.assert_allclose(rows.slope(at), slope_of(rows, at), rtol=1e-9, atol=1e-12)
    turns = np.array([(rows.slope(at + e) - rows.slope(at - e)) / 2e-5 for e in 1e-5 * np.eye(3)])
    np.testing.assert_allclose(rows.curvature(at), turns, atol=1e-6)
    some = rows[rows.wanted > 0.5]
    np.testing.assert_array_equal(some.loss(at), rows.loss(at)[rows.wanted > 0.5])


def test_the_strengths_are_scikit_learns():
    """Cs=10: ten numbers from 1e-4 to 1e4, each the same multiple of the one before."""
    assert len(STRENGTHS) == 10
    assert (STRENGTHS[0], STRENGTHS[-1]) == (pytest.approx(1e-4), pytest.approx(1e4))
    np.testing.assert_allclose(STRENGTHS[1:] / STRENGTHS[:-1], 10 ** (8 / 9))


def test_of_strengths_that_predict_alike_the_first_is_chosen():
    nothing = Rows(np.zeros((20, 3)), np.linspace(0, 1, 20), np.ones(20))
    assert chosen_strength(nothing, np.full(3, 1e-6)) == pytest.approx(1e-4)


def test_every_fifth_row_is_left_out_together():
    """Rows that only the rows five away could foretell: fits without them know nothing, and the lasso wins."""
    turn = np.arange(100) % 5
    features = np.eye(5)[turn] * 4
    wanted = np.array([0.95, 0.05, 0.9, 0.1, 0.85])[turn]
    together = Rows(features, wanted, np.ones(100))
    assert chosen_strength(together, np.full(5, 1e-6)) == pytest.approx(1e-4)
    by_kind = np.argsort(turn, kind="stable")
    apart = Rows(features[by_kind], wanted[by_kind], np.ones(100))
    assert chosen_strength(apart, np.full(5, 1e-6)) > 1


@pytest.mark.parametrize("lasso", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_newtons_steps_are_few(monkeypatch, seed, lasso):
    """Near the minimum the error is squared at every step: a dozen reach the last digit, however large the fit."""
    steps, curvature = [], Rows.curvature
    monkeypatch.setattr(Rows, "curvature", lambda rows, fit: steps.append(fit) or curvature(rows, fit))
    rng = np.random.default_rng(seed)
    features = rng.normal(0, 0.3, (60, 3))
    fit = fit_logistic(Rows(features, expit(features @ [8.0, -5.0, 2.0]), np.ones(60)), np.full(3, 1e-6), lasso)
    assert np.abs(fit).max() > 2
    assert len(steps) <= 12


def test_rows_are_frozen():
    with pytest.raises(FrozenInstanceError):
        some_rows(0).weight = 1


@pytest.mark.parametrize("seed", range(12))
def test_the_strength_has_the_least_sum_of_the_folds_mean_losses(monkeypatch, seed):
    """With fits that only the lasso decides, over 13 rows: three folds of three and two of two."""
    rng = np.random.default_rng(seed)
    rows = Rows(rng.normal(size=(13, 1)) + 1, rng.uniform(0, 1, 13), rng.uniform(0.1, 2, 13))
    fits = dict(zip(1 / STRENGTHS, rng.normal(size=10), strict=True))
    monkeypatch.setattr(logistic, "fit_logistic", lambda kept, ridge, lasso: np.array([fits[lasso]]))
    errors = []
    for fit in fits.values():
        losses = rows.weight * (np.logaddexp(0, rows.features[:, 0] * fit) - rows.wanted * rows.features[:, 0] * fit)
        errors.append(sum(losses[fold::5].mean() for fold in range(5)))
    assert chosen_strength(rows, np.zeros(1)) == STRENGTHS[np.argmin(errors)]
