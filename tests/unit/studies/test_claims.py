"""A verdict needs an interval on one side of zero; labels never cover each other; sentences go no further."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapo.report.label_places import apart
from gapo.report.study_figures import COLOURS, colour_of
from gapo.report.study_page import _beside_the_paper
from gapo.studies.names import METHOD_NAMES
from gapo.studies.seeds import Estimate
from gapo.studies.sentences import compared, points, ranking
from gapo.studies.study import Claim


@pytest.mark.parametrize(
    ("low", "high", "upward", "verdict"),
    [
        (0.01, 0.03, True, "agrees"),
        (0.01, 0.03, False, "disagrees"),
        (-0.03, -0.01, True, "disagrees"),
        (-0.03, -0.01, False, "agrees"),
        (-0.01, 0.03, True, "open"),
        (None, None, True, "open"),
    ],
)
def test_a_verdict(low, high, upward, verdict):
    mean = 0.01 if low is None else (low + high) / 2
    assert Claim("GAPO minus SimPO", Estimate(mean, low, high, 5), 0.03, upward).verdict == verdict


def test_a_disagreement_is_said_plainly_with_its_reason():
    claim = Claim("GAPO minus SimPO", Estimate(-0.02, -0.03, -0.01, 5), 0.036, reason="the gap is small")
    text = "\n".join(_beside_the_paper([claim]))
    assert "Our result disagrees with the paper** on: GAPO minus SimPO." in text
    assert "the gap is small" in text
    assert "| GAPO minus SimPO | +3.6 | −2.0 (−3.0 to −1.0) | **disagrees with the paper** |" in text


def test_an_agreement_needs_no_reason():
    text = "\n".join(_beside_the_paper([Claim("a", Estimate(0.02, 0.01, 0.03, 5), 0.03, reason="the gap is small")]))
    assert "agrees with the paper" in text
    assert "the gap is small" not in text


def test_sentences_follow_the_interval():
    assert "cannot be told apart" in compared("gapo", "dpo", Estimate(0.01, -0.01, 0.02, 5), "accuracy")
    assert compared("gapo", "dpo", Estimate(-0.02, -0.03, -0.01, 5), "accuracy") == (
        "GAPO is below DPO in accuracy (−2.0 points, 95 % interval −3.0 to −1.0)."
    )
    assert "too few to say" in compared("gapo", "dpo", Estimate(0.02, 0.01, 0.03, 2), "accuracy")
    assert "not measured" in compared("gapo", "dpo", None, "accuracy")
    assert ranking([{"method": "dpo", "x": None}], "x", "skill") == "Skill was not measured."
    assert points(-0.0001) == "0.0"


@given(st.lists(st.floats(0, 1), max_size=12), st.floats(0.01, 0.08))
def test_names_stand_apart_in_the_order_of_their_points(wanted, gap):
    places = apart(wanted, gap, 0.0, 1.0)
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    steps = [places[b] - places[a] for a, b in itertools.pairwise(order)]
    assert all(step >= gap - 1e-9 for step in steps)
    if len(wanted) == 1:
        assert places == wanted


def test_every_method_has_its_own_colour_wherever_it_is_named():
    assert set(COLOURS) == set(METHOD_NAMES)
    assert len(set(COLOURS.values())) == len(COLOURS)
    assert colour_of("GAPO bank") == colour_of("gapo") == colour_of("GAPO")
    assert colour_of("SimPO, 2 epochs") == colour_of("simpo") != colour_of("SimPO+SAM")
