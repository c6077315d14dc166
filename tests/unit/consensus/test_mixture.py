"""The symmetric mixture, against numerical maximisation of its likelihood written anew."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from scipy.optimize import minimize
from scipy.stats import norm, t

from gapo.consensus.mixture import SHAPES, Mixture, fit, fit_with_interval


def drawn(rate=0.2, centre=1.0, width=0.6, pairs=800, seed=0):
    """Alignments whose labels are wrong at this rate, and which of them are."""
    rng = np.random.default_rng(seed)
    wrong = rng.random(pairs) < rate
    return np.where(wrong, -1, 1) * rng.normal(centre, width, pairs), wrong


def skewed(rate, pairs=1500, seed=0):
    """Right labels of very different strength: some pairs say much, most say little."""
    rng = np.random.default_rng(seed)
    wrong = rng.random(pairs) < rate
    return np.where(wrong, -1, 1) * (rng.exponential(1.0, pairs) + rng.normal(0, 0.4, pairs)), wrong


def top_of(a, density):
    """The largest log-likelihood over rate, centre and width, by Nelder-Mead from several places."""

    def height(x):
        rate, centre, width = 0.5 / (1 + np.exp(-x[0])), abs(x[1]), np.exp(x[2])
        both = (1 - rate) * density((a - centre) / width) + rate * density((-a - centre) / width)
        return -np.log(both / width).sum()

    tried = [minimize(height, [start, 0.8, -0.5], method="Nelder-Mead", options={"maxiter": 4000}) for start in (-2, 0)]
    return -min(one.fun for one in tried)


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.4])
@pytest.mark.parametrize(("shape", "density"), [("normal", norm.pdf), ("heavy", t(4).pdf)])
def test_em_climbs_to_the_top_of_the_likelihood(shape, density, rate):
    a, _ = drawn(rate)
    assert fit(a, [shape]).log_likelihood == pytest.approx(top_of(a, density), abs=1e-2)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.2, 0.3, 0.4])
def test_the_rate_is_found(rate):
    a, wrong = drawn(rate, pairs=4000)
    assert fit(a).rate == pytest.approx(wrong.mean(), abs=0.02)


@pytest.mark.parametrize("rate", [0.1, 0.2])
def test_strengths_find_the_rate_where_one_level_does_not(rate):
    a, wrong = skewed(rate)
    found = fit(a)
    assert found.shape == "strengths"
    assert found.rate == pytest.approx(wrong.mean(), abs=0.04)
    assert abs(fit(a, ["normal"]).rate - wrong.mean()) > 2 * abs(found.rate - wrong.mean())


def test_the_posterior_is_bayes_rule():
    mixture = Mixture("normal", 0.3, (0.8,), (1.0,), 0.5)
    a = np.linspace(-3, 3, 13)
    right, turned = 0.7 * norm.pdf(a, 0.8, 0.5), 0.3 * norm.pdf(-a, 0.8, 0.5)
    np.testing.assert_allclose(mixture.wrong(a), turned / (right + turned), rtol=1e-12)


def test_probabilities_are_calibrated():
    a, wrong = drawn(0.3, pairs=20_000)
    p = fit(a).wrong(a)
    for low, high in [(0.0, 0.1), (0.3, 0.7), (0.9, 1.0)]:
        inside = (p >= low) & (p <= high)
        assert wrong[inside].mean() == pytest.approx(p[inside].mean(), abs=0.03)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_round_never_loses(shape, monkeypatch):
    a, _ = drawn(0.25, pairs=300)
    heights = []
    for rounds in range(1, 12):
        monkeypatch.setattr("gapo.consensus.mixture.ROUNDS", rounds)
        heights.append(fit(a, [shape]).log_likelihood)
    assert (np.diff(heights) >= -1e-9).all()


@settings(deadline=None, max_examples=40)
@given(some.integers(0, 2**31), some.floats(0.01, 100.0), some.sampled_from(list(SHAPES)))
def test_another_unit_of_alignment_changes_nothing(seed, unit, shape):
    a, _ = drawn(0.2, pairs=120, seed=seed)
    one, other = fit(a, [shape]), fit(unit * a, [shape])
    assert other.rate == pytest.approx(one.rate, abs=2e-3)  # rounding may end EM a round earlier
    np.testing.assert_allclose(other.wrong(unit * a), one.wrong(a), atol=1e-2)


@settings(deadline=None, max_examples=40)
@given(some.integers(0, 2**31), some.sampled_from(list(SHAPES)))
def test_a_lower_alignment_is_never_less_suspicious_where_the_tails_are_light(seed, shape):
    a, _ = drawn(0.2, pairs=120, seed=seed)
    if np.isinf(SHAPES[shape][1]):
        p = fit(a, [shape]).wrong(np.linspace(-3, 3, 61))
        assert (np.diff(p) <= 1e-12).all()


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.4])
def test_the_interval_holds_the_rate_in_most_data_sets(rate):
    held = 0
    for seed in range(20):
        a, _ = drawn(rate, pairs=300, seed=seed)
        found = fit_with_interval(a, ["normal"])
        assert found.low <= found.rate <= found.high
        held += found.low - 0.005 <= rate <= found.high + 0.005
    assert held >= 16


def test_without_a_signal_nothing_is_known_of_the_rate():
    found = fit_with_interval(np.random.default_rng(0).normal(size=300))
    assert found.high - found.low > 0.4
    assert found.separation < 1


@pytest.mark.parametrize("alignments", [np.zeros(0), np.zeros(5), np.array([0.3])])
def test_nothing_to_go_by_is_no_error(alignments):
    found = fit(alignments)
    assert np.isfinite(found.wrong(alignments)).all()
