"""Medians, paired ratios, the order of variants, exponents: laws of the arithmetic a bench is read by."""

from collections import Counter
from math import isnan, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapo.bench.arithmetic import Spread, fitted_growth, order, ratio, spread

NAMES = st.lists(st.text("abcdefgh", min_size=1, max_size=4), min_size=1, max_size=7, unique=True)


def test_one_slow_repetition_does_not_move_the_headline():
    assert spread([3.0, 1.0, 2.0, 90.0, 2.5]) == Spread(2.5, 1.0, 90.0)


def test_a_rate_has_its_ends_the_other_way_round():
    assert Spread(4.0, 2.0, 8.0).under(16) == Spread(4.0, 2.0, 8.0)
    assert Spread(4.0, 2.0, 8.0).over(2) == Spread(2.0, 1.0, 4.0)


def test_a_ratio_is_of_medians_and_its_spread_of_paired_repetitions():
    found = ratio({0: 2.0, 1: 6.0, 2: 4.0}, {0: 1.0, 1: 2.0, 2: 8.0})
    assert found == Spread(4.0 / 2.0, 0.5, 3.0)


def test_without_a_shared_repetition_there_is_no_ratio():
    assert ratio({0: 1.0}, {1: 1.0}) is None
    assert ratio({}, {}) is None


def test_a_ratio_ignores_what_slows_both_alike():
    quick, slow = {0: 1.0, 1: 1.0}, {0: 2.0, 1: 2.0}
    busy = {0: 1.0, 1: 5.0}
    found = ratio({k: slow[k] * busy[k] for k in slow}, {k: quick[k] * busy[k] for k in quick})
    assert (found.value, found.low, found.high) == (2.0, 2.0, 2.0)


@given(NAMES, st.integers(0, 40))
def test_every_repetition_runs_every_variant_once(names, repetition):
    assert sorted(order(names, repetition)) == sorted(names)


@given(NAMES, st.integers(0, 20))
def test_every_second_repetition_runs_backwards(names, half):
    assert order(names, 2 * half + 1) == order(names, 2 * half)[::-1]


@given(NAMES)
def test_over_two_rounds_each_variant_stands_twice_in_every_place(names):
    places = Counter((name, at) for r in range(2 * len(names)) for at, name in enumerate(order(names, r)))
    assert set(places.values()) == {2}
    assert len(places) == len(names) ** 2


@given(
    st.floats(-2, 3),
    st.floats(1e-4, 1e3),
    st.lists(st.integers(1, 4000), min_size=3, max_size=8, unique=True),
)
def test_the_fit_recovers_a_power_law(exponent, factor, x):
    found = fitted_growth(x, [factor * at**exponent for at in x])
    assert found.exponent == pytest.approx(exponent, abs=1e-6)
    assert found.factor == pytest.approx(factor, rel=1e-5)
    assert found.error == pytest.approx(0, abs=1e-6)


def test_two_points_have_an_exponent_but_no_error():
    found = fitted_growth([1, 10], [1, 100])
    assert found.exponent == pytest.approx(2)
    assert isnan(found.error)


def test_the_error_is_that_of_the_textbook():
    from scipy.stats import linregress

    x, y = [1.0, 2.0, 4.0, 8.0], [1.0, 2.5, 3.5, 9.0]
    truth = linregress([log(v) for v in x], [log(v) for v in y])
    found = fitted_growth(x, y)
    assert (found.exponent, found.error) == (pytest.approx(truth.slope), pytest.approx(truth.stderr))
