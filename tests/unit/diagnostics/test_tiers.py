"""Weights of marked pairs, and where they are in the order."""

import numpy as np
import pytest

from gapo.diagnostics.tiers import as_marks, contrast, tier_difference, tiers


@pytest.fixture
def weighted():
    rng = np.random.default_rng(0)
    marked = rng.random(1000) < 0.2
    return rng.normal(1, 0.1, 1000) - 0.05 * marked, marked


def test_means_and_their_ratio(weighted):
    weight, marked = weighted
    found = contrast(weight, marked)
    low, high = weight[marked].mean(), weight[~marked].mean()
    assert (found.marked.value, found.others.value) == pytest.approx((low, high))
    assert found.relative.value == pytest.approx((low - high) / high)
    assert (found.marked_pairs, found.other_pairs) == (marked.sum(), 1000 - marked.sum())
    half = 1.96 * weight[marked].std() / np.sqrt(marked.sum())
    assert found.marked.high - found.marked.low == pytest.approx(2 * half, rel=0.15)
    assert found.relative.high < 0


def test_tiers_of_weights_without_ties_are_slices_of_the_order(weighted):
    weight, marked = weighted
    ordered = marked[np.argsort(weight)]
    found = tiers(weight, marked)
    assert [tier.pairs for tier in found] == pytest.approx([200, 600, 200])
    rates = [ordered[:200].mean(), ordered[200:800].mean(), ordered[800:].mean()]
    assert [tier.rate.value for tier in found] == pytest.approx(rates)
    assert all(tier.rate.low < tier.rate.value < tier.rate.high for tier in found)
    assert tier_difference(weight, marked).value == pytest.approx(rates[0] - rates[2])
    assert tier_difference(weight, marked).low > 0


def test_equal_weights_say_nothing_whatever_the_order_of_the_pairs():
    marked = np.arange(50) < 10
    for order in (np.arange(50), np.arange(50)[::-1]):
        assert [tier.rate.value for tier in tiers(np.ones(50), marked[order])] == pytest.approx([0.2] * 3)


def test_a_tie_across_an_edge_is_shared_out():
    """Ten pairs, the lowest three equal and two of them marked: two thirds of each are in the bottom fifth."""
    weight = np.array([0, 0, 0, 1, 2, 3, 4, 5, 6, 7.0])
    marked = np.array([1, 1, 0, 0, 0, 0, 0, 0, 0, 1])
    found = tiers(weight, as_marks(marked))
    assert [tier.rate.value for tier in found] == pytest.approx([2 / 3, (2 / 3) / 6, 1 / 2])


def test_one_kind_of_pair_alone_has_no_contrast():
    assert np.isnan(contrast(np.ones(5), np.zeros(5, dtype=bool)).relative.value)


def test_clusters_widen_the_interval(weighted):
    weight, marked = weighted
    weight, marked = np.repeat(weight, 4), np.repeat(marked, 4)
    alone, together = contrast(weight, marked), contrast(weight, marked, clusters=np.repeat(np.arange(1000), 4))
    assert together.relative.high - together.relative.low > 1.5 * (alone.relative.high - alone.relative.low)
