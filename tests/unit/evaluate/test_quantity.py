"""Numbers with intervals against formulas written out here, and laws over random inputs."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapo.evaluate.quantity import mean_of, paired_difference, share_of

Z = 1.959963984540054
laws = settings(max_examples=30, deadline=None)  # each mean draws a thousand times
wins = st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=40)


def wilson(p, n):
    """Wilson 1927, the two roots of (p - x)^2 = z^2 x (1 - x) / n."""
    a, b, c = 1 + Z**2 / n, -(2 * p + Z**2 / n), p**2
    root = math.sqrt(max(0.0, b**2 - 4 * a * c))
    return (-b - root) / (2 * a), (-b + root) / (2 * a)


def test_a_share_of_separate_items_has_wilsons_interval():
    found = share_of(np.array([1.0] * 7 + [0.0] * 3))
    assert (found.value, found.n) == (0.7, 10)
    assert (found.low, found.high) == pytest.approx(wilson(0.7, 10), abs=1e-12)


def test_repeating_every_item_does_not_narrow_the_interval():
    """Each pair ten times under its prompt: the clustered interval is that of the prompts."""
    one = np.array([1.0] * 7 + [0.0] * 3)
    often, prompts = np.repeat(one, 10), np.repeat(np.arange(10), 10)
    clustered, plain = share_of(often, prompts), share_of(often)
    assert (clustered.low, clustered.high) == pytest.approx(wilson(0.7, 10), abs=1e-12)
    assert plain.high - plain.low < clustered.high - clustered.low


def test_all_right_counts_prompts_not_pairs():
    found = share_of(np.ones(30), np.repeat(np.arange(3), 10))
    assert (found.low, found.high) == pytest.approx(wilson(1.0, 3), abs=1e-12)


def test_nothing_has_no_share_and_no_mean():
    assert share_of(np.array([])) is None
    assert mean_of(np.array([])) is None


def test_one_value_has_a_mean_and_no_interval():
    assert mean_of(np.array([2.0])) == (2.0, None, None, 1)


@laws
@given(wins)
def test_a_share_lies_in_its_interval_and_the_interval_in_zero_one(values):
    found = share_of(np.array(values))
    assert 0 <= found.low <= found.value + 1e-12
    assert found.value - 1e-12 <= found.high <= 1


@laws
@given(wins)
def test_the_share_of_losses_is_the_mirror(values):
    won = np.array(values)
    found, lost = share_of(won), share_of(1 - won)
    assert (lost.low, lost.high) == pytest.approx((1 - found.high, 1 - found.low), abs=1e-9)


def test_a_mean_interval_is_near_the_normal_one():
    rng = np.random.default_rng(0)
    values = rng.normal(3, 2, 400)
    found = mean_of(values)
    half = Z * values.std() / 20
    assert found.value == pytest.approx(values.mean())
    assert (found.low, found.high) == pytest.approx((found.value - half, found.value + half), abs=0.05)


def test_weights_make_a_mean_per_token():
    """sum of totals over sum of tokens, not the mean of the items' ratios."""
    found = mean_of(np.array([0.1, 0.4]), weights=np.array([30.0, 10.0]))
    assert found.value == pytest.approx((0.1 * 30 + 0.4 * 10) / 40)


def test_a_paired_difference_takes_the_items_both_have():
    ours, theirs = {"a": 1.0, "b": 1.0, "c": 0.0, "only": 1.0}, {"a": 0.0, "b": 1.0, "c": 0.0, "other": 0.0}
    found = paired_difference(ours, theirs)
    assert (found.value, found.n) == (pytest.approx(1 / 3), 3)
    assert paired_difference(ours, {"x": 1.0}) is None


@laws
@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=2, max_size=20))
def test_a_paired_difference_turns_around_with_its_sides(values):
    ours = {str(i): a for i, (a, _) in enumerate(values)}
    theirs = {str(i): b for i, (_, b) in enumerate(values)}
    there, back = paired_difference(ours, theirs), paired_difference(theirs, ours)
    assert there.value == pytest.approx(-back.value, abs=1e-9)
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low), abs=1e-9)


def test_pairing_takes_away_what_items_have_in_common():
    """Items differ much, models little: the paired interval is narrow where two separate ones overlap."""
    rng = np.random.default_rng(1)
    hard = rng.normal(0, 5, 300)
    ours = {str(i): h + 0.3 + e for i, (h, e) in enumerate(zip(hard, rng.normal(0, 0.5, 300), strict=True))}
    theirs = {str(i): h for i, h in enumerate(hard)}
    found = paired_difference(ours, theirs)
    assert 0 < found.low < 0.3 < found.high
    assert found.high - found.low < 0.2
