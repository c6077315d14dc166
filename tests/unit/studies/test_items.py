"""Intervals for the choice of test items: against drawn samples, formulas written out here, and laws."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapo.studies.items import BY_ITEM, by_items, minus_on_the_same_items, read, with_intervals, written

Z = 1.959963984540054
outcomes = st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=60)
twenty_to_sixty = st.lists(st.sampled_from(["++", "+-", "-+", "--"]), min_size=20, max_size=60)


@given(outcomes)
def test_what_is_written_is_read_again(right):
    assert read(written(right)).tolist() == right


def test_a_share_of_one_seed_has_wilsons_interval_and_others_keep_theirs():
    """The ends are the shares p at which |p - 0.3| = z sqrt(p (1 - p) / n)."""
    table = [
        {"share": 0.3, "share_low": None, "share_high": None, "pairs": 50, "seeds": 1},
        {"share": 0.3, "share_low": 0.1, "share_high": 0.5, "pairs": 50, "seeds": 3},
        {"share": None, "pairs": None, "seeds": 0},
    ]
    one, three, none = with_intervals(table, ["share"], "pairs")
    for end in (one["share_low"], one["share_high"]):
        assert abs(end - 0.3) == pytest.approx(Z * math.sqrt(end * (1 - end) / 50), abs=1e-12)
    assert one["share_low"] < 0.3 < one["share_high"]
    assert (three, none) == tuple(table[1:])


@given(twenty_to_sixty)
def test_a_difference_is_that_of_the_shares_and_changes_its_sign_with_its_sides(items):
    ours, theirs = ("".join(item[k] for item in items) for k in (0, 1))
    found, turned = minus_on_the_same_items(ours, theirs), minus_on_the_same_items(theirs, ours)
    assert found.mean == pytest.approx(read(ours).mean() - read(theirs).mean(), abs=1e-12)
    assert found.low <= found.mean + 1e-12
    assert found.mean - 1e-12 <= found.high
    assert (turned.mean, turned.low, turned.high) == pytest.approx((-found.mean, -found.high, -found.low), abs=1e-9)


def test_an_interval_over_items_is_as_wide_as_the_paired_variance_says():
    """sd of the mean difference = sqrt(var(x - y) / n): far less than of two samples where most items agree."""
    rng = np.random.default_rng(1)
    ours = rng.random(1000) < 0.6
    theirs = np.where(rng.random(1000) < 0.1, ~ours, ours)
    found = minus_on_the_same_items(written(ours), written(theirs))
    difference = ours.astype(float) - theirs.astype(float)
    half = Z * difference.std() / math.sqrt(1000)
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.08)
    assert half < 0.5 * Z * math.sqrt(2 * 0.24 / 1000)


def test_nothing_is_said_of_runs_that_do_not_say_how_items_came_out_or_of_other_items():
    row = {"rate": 0.2, "method": "simpo", "share": 0.25, "share_low": None, "share_high": None, "seeds": 1}
    runs = [{"method": "gapo", "rate": 0.2, "share" + BY_ITEM: "++--"}, {"method": "simpo", "rate": 0.2}]
    assert by_items([row], runs, "gapo", ["share"], ["rate"]) == [row]
    runs[1]["share" + BY_ITEM] = "+---"
    (found,) = by_items([row], runs, "gapo", ["share"], ["rate"])
    assert found["share"] == 0.25
    assert found["share_low"] <= 0.25 <= found["share_high"]
    assert by_items([{**row, "seeds": 3}], runs, "gapo", ["share"], ["rate"]) == [{**row, "seeds": 3}]
    runs[1]["share" + BY_ITEM] = "+--"
    assert by_items([row], runs, "gapo", ["share"], ["rate"]) == [row]
