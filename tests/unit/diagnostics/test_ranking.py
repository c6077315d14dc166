"""Orders of pairs against definitions written out: every tie broken every way, every two pairs compared."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm, spearmanr

from gapo.diagnostics.ranking import (
    area_under_roc,
    auroc,
    auroc_difference,
    band,
    log_spread,
    rank_correlation,
    spearman,
    top_overlap,
)

few_values = st.lists(st.integers(0, 3), min_size=4, max_size=6)
four_values = st.lists(st.integers(0, 3), min_size=4, max_size=4)
slow = settings(deadline=None, max_examples=50)  # every order is tried


def orders(values):
    """Every order, lowest first, that equal values allow."""
    return [order for order in permutations(range(len(values))) if all(np.diff(np.take(values, order)) >= 0)]


@slow
@given(values=few_values, edges=st.tuples(st.integers(0, 10), st.integers(0, 10)).filter(lambda e: e[0] < e[1]))
def test_a_band_is_the_mean_over_every_way_to_break_ties(values, edges):
    """Also where an edge cuts through a pair's place: that pair belongs in part."""
    low, high = edges[0] / 10, edges[1] / 10
    n = len(values)
    place = np.arange(n)
    inside = np.clip(np.minimum(place + 1, high * n) - np.maximum(place, low * n), 0, None)
    member = np.zeros(n)
    ways = orders(values)
    for order in ways:
        member[list(order)] += inside / len(ways)
    assert band(np.array(values, float), low, high) == pytest.approx(member)
    assert band(np.array(values, float), low, high).sum() == pytest.approx((high - low) * n)


@slow
@given(left=four_values, right=four_values)
def test_the_overlap_of_tops_is_its_mean_over_ties(left, right):
    shares = [
        len({*one[-2:]} & {*other[-2:]}) / 2  # the top half of four
        for one in orders(left)
        for other in orders(right)
    ]
    found = top_overlap(np.array(left, float), np.array(right, float), share=0.5)
    assert found == pytest.approx(np.mean(shares))


def test_tops_of_unrelated_orders_overlap_by_chance():
    rng = np.random.default_rng(0)
    assert top_overlap(*rng.normal(size=(2, 20_000))) == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize("rounded", [3, 0])
def test_rank_correlation_is_scipys(rounded):
    left = np.random.default_rng(0).normal(size=80)
    right = (left + np.random.default_rng(1).normal(size=80)).round(rounded)
    assert rank_correlation(left.round(rounded), right) == pytest.approx(spearmanr(left.round(rounded), right)[0])
    found = spearman(left, right)
    assert found.low < found.value < found.high
    assert np.isnan(rank_correlation(left, np.ones(80)))


def test_log_spread_is_of_what_has_a_logarithm():
    values = np.exp(np.random.default_rng(0).normal(1, 0.7, 50))
    assert log_spread(np.concatenate([values, [0, -3]])) == pytest.approx(np.log(values).std(ddof=1))
    assert np.isnan(log_spread(np.array([-1.0, 2.0])))


def literal_auroc(score, marked):
    """Every marked pair against every other: the matrix of wins, its mean, and DeLong's variance from its margins."""
    wins = np.array([[1.0 if a > b else 0.5 if a == b else 0.0 for b in score[~marked]] for a in score[marked]])
    return wins, np.var(wins.mean(1), ddof=1) / wins.shape[0] + np.var(wins.mean(0), ddof=1) / wins.shape[1]


def scored(seed, places, n=40):
    rng = np.random.default_rng(seed)
    marked = rng.random(n) < 0.3
    return (rng.normal(size=n) + 0.8 * marked).round(places), marked


@pytest.mark.parametrize("places", [6, 0])
@pytest.mark.parametrize("seed", range(3))
def test_the_area_counts_wins_and_its_interval_is_delongs(seed, places):
    score, marked = scored(seed, places)
    wins, variance = literal_auroc(score, marked)
    found = auroc(score, marked)
    area = wins.mean()
    assert found.value == area_under_roc(score, marked) == pytest.approx(area)
    for end, sign in ((found.low, -1), (found.high, 1)):  # in the logit, by the delta method
        wanted = np.log(area / (1 - area)) + sign * norm.ppf(0.975) * np.sqrt(variance) / (area * (1 - area))
        assert np.log(end / (1 - end)) == pytest.approx(wanted)


def test_the_interval_holds_the_true_area_as_often_as_it_says():
    """P(x + 1 > y) of two normals is Phi(1 / sqrt 2)."""
    truth = norm.cdf(1 / np.sqrt(2))
    rng = np.random.default_rng(0)
    marked = np.arange(120) < 40
    held = 0
    for _ in range(600):
        found = auroc(rng.normal(size=120) + marked, marked)
        held += found.low <= truth <= found.high
    assert held / 600 == pytest.approx(0.95, abs=0.025)


def test_the_difference_of_two_areas_uses_that_they_are_on_the_same_pairs():
    score, marked = scored(5, 6)
    other = score + 0.3 * np.random.default_rng(9).normal(size=len(score))
    found = auroc_difference(score, other, marked)
    first, second = literal_auroc(score, marked)[0], literal_auroc(other, marked)[0]
    apart = first - second
    variance = np.var(apart.mean(1), ddof=1) / apart.shape[0] + np.var(apart.mean(0), ddof=1) / apart.shape[1]
    assert found.value == pytest.approx(apart.mean())
    assert found.high - found.low == pytest.approx(2 * norm.ppf(0.975) * np.sqrt(variance))
    assert auroc_difference(score, score, marked) == (0, 0, 0)
    assert auroc_difference(score, 2 * score + 1, marked) == pytest.approx((0, 0, 0))


def test_the_ends_of_an_area():
    marked = np.array([False, False, True, True])
    assert auroc(np.arange(4.0), marked) == (1, 1, 1)
    assert auroc(-np.arange(4.0), marked) == (0, 0, 0)
    assert auroc(np.ones(4), marked).value == 0.5
    assert np.isnan(auroc(np.arange(4.0), np.zeros(4, dtype=bool)).value)
