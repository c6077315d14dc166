"""Means over seeds: the interval is that of all resamples, differences are taken seed by seed."""

from itertools import product
from statistics import NormalDist, mean, stdev

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapo.studies.seeds import HELD, estimate, minus, paired, summarised

# Phi(-sqrt(n/(n-1)) * t) with Student's 12.706 and 3.182
TAILS = {2: NormalDist().cdf(-(2**0.5) * 12.7062047), 4: NormalDist().cdf(-((4 / 3) ** 0.5) * 3.18244631)}
VALUES = st.sampled_from([2, 4]).flatmap(lambda n: st.lists(st.floats(-10, 10), min_size=n, max_size=n))


def rows(method, values, **labels):
    return [{"method": method, "seed": seed, "accuracy": value, **labels} for seed, value in enumerate(values)]


@given(VALUES)
def test_the_interval_is_that_of_every_resample(values):
    found = estimate(values)
    means = sorted(mean(chosen) for chosen in product(values, repeat=len(values)))
    assert found.mean == pytest.approx(mean(values))
    assert (found.low, found.high) == pytest.approx(
        tuple(np.quantile(means, (TAILS[len(values)], 1 - TAILS[len(values)])))
    )
    assert found.low <= found.mean + 1e-9
    assert found.high >= found.mean - 1e-9


def test_the_same_values_always_give_the_same_interval():
    values = list(np.random.default_rng(1).normal(size=12))
    assert estimate(values) == estimate(values)
    half = 2.201 * np.std(values, ddof=1) / np.sqrt(12)  # nearly Student's interval at twelve
    assert estimate(values).high - estimate(values).low == pytest.approx(2 * half, rel=0.15)


@pytest.mark.parametrize(("seeds", "held"), HELD.items())
def test_an_interval_holds_the_mean_as_often_as_the_page_says(seeds, held):
    rng = np.random.default_rng(3)
    found = [estimate(rng.normal(size=seeds)) for _ in range(600)]
    assert np.mean([one.low <= 0 <= one.high for one in found]) == pytest.approx(held, abs=0.05)


@given(st.lists(st.floats(-10, 10), min_size=3, max_size=3))
def test_three_seeds_have_students_interval(values):
    found, half = estimate(values), 4.30265273 * stdev(values) / 3**0.5
    assert (found.low, found.high) == pytest.approx((mean(values) - half, mean(values) + half), abs=1e-6)


def test_two_seeds_are_never_clear_and_three_only_where_they_agree():
    assert not estimate([0.1, 0.1]).clear
    assert not estimate([0.1, 0.1, 0.1]).clear  # by chance equal: accuracies on 80 pairs are coarse
    assert estimate([0.1, 0.1, 0.1, 0.1]).clear
    assert estimate([0.09, 0.1, 0.11]).clear
    assert not estimate([0.02, 0.1, 0.18]).clear  # all above zero, yet 0.1 +- 0.2


def test_one_seed_has_no_interval_and_none_has_no_mean():
    assert (estimate([3.0]).low, estimate([3.0]).high, estimate([3.0]).mean) == (None, None, 3.0)
    assert not estimate([3.0]).clear
    assert estimate([]) is None


def test_a_difference_is_taken_on_the_seeds_both_have():
    ours, theirs = rows("gapo", [0.5, 0.6, 0.9]), rows("simpo", [0.4, 0.5])
    found = paired(ours, theirs, "accuracy")
    assert found.seeds == 2
    assert found.mean == pytest.approx(0.1)
    assert found.low == pytest.approx(0.1)  # seeds vary, their differences do not
    assert paired(ours, theirs, "accuracy", ratio=True).mean == pytest.approx((0.5 / 0.4 + 0.6 / 0.5) / 2)


def test_groups_keep_their_order_and_count_their_seeds():
    table = summarised([*rows("b", [0.1, 0.3]), *rows("a", [0.2])], ["method"], ("accuracy",))
    assert [(row["method"], row["accuracy"], row["seeds"]) for row in table] == [("b", 0.2, 2), ("a", 0.2, 1)]
    assert table[1]["accuracy_low"] is None


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_an_interval_of_a_share_ends_where_shares_end_and_holds_what_it_held(values):
    (row,) = summarised(rows("a", values), ["method"], ("accuracy",))
    free, low, high = estimate(values), row["accuracy_low"], row["accuracy_high"]
    assert row["accuracy"] == free.mean
    if len(values) == 1:
        assert (low, high) == (None, None)
        return
    for possible in np.linspace(0, 1, 11):
        assert (low <= possible <= high) == (free.low <= possible <= free.high)
    assert 0 <= low <= high <= 1


def test_differences_and_unknown_quantities_have_their_whole_interval():
    both = [*rows("a", [0.9, 0.1, 0.5]), *rows("b", [0.1, 0.9, 0.5])]
    (difference,) = minus(both, "a", ["b"], ("accuracy",))
    assert difference["accuracy_low"] < -1
    table = summarised([{"method": "a", "seed": s, "margin": float(s)} for s in range(3)], ["method"], ("margin",))
    assert table[0]["margin_low"] < 0


def test_a_drift_is_never_below_zero():
    table = summarised(
        [{"method": "a", "seed": s, "kl": k} for s, k in enumerate((0.1, 0.1, 0.9))], ["method"], ("kl",)
    )
    assert table[0]["kl_low"] == 0
    assert table[0]["kl_high"] > 1


def test_what_was_not_measured_is_none_and_not_zero():
    table = summarised([{"method": "a", "seed": 0, "accuracy": None}], ["method"], ("accuracy",))
    assert table[0]["accuracy"] is None


def test_one_method_minus_the_others_in_each_group():
    everything = [
        *rows("gapo", [0.7, 0.8], rate=0.0),
        *rows("dpo", [0.6, 0.6], rate=0.0),
        *rows("gapo", [0.5, 0.5], rate=0.4),
        *rows("dpo", [0.6, 0.7], rate=0.4),
    ]
    found = minus(everything, "gapo", ["dpo", "kto"], ("accuracy",), ["rate"])
    assert [(row["rate"], row["method"]) for row in found] == [(0.0, "dpo"), (0.4, "dpo")]
    assert [row["accuracy"] for row in found] == pytest.approx([0.15, -0.15])
