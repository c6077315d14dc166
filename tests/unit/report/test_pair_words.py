"""A pair's explanation says what its numbers say."""

from __future__ import annotations

import pytest

from gapo.report.pair_view import PairColumn, PairView
from gapo.report.pair_words import explanations
from pair_views import made_view


def words_of(place: int = 0, *, beta: float | None = 2.5, **columns) -> str:
    """The explanation of one of some pairs, by number columns and `flipped` or `agree`."""
    truths = ("flipped", "agree")
    made = [PairColumn(key, key, "truth" if key in truths else "number", values) for key, values in columns.items()]
    ids = [str(i) for i in range(len(made[0].values))]
    return explanations(PairView(ids, made, beta=beta))[place].replace("\u00a0", " ").replace("\u2212", "-")


def test_the_weight_is_set_among_the_others():
    weights = [1 + i / 100 for i in range(100)]
    assert words_of(0, weight=weights) == "Weight 1 of at most 2.5, the least of all 100 pairs."
    assert words_of(6, weight=weights, beta=None) == "Weight 1.06, less than 93 % of the pairs."
    assert words_of(98, weight=weights) == "Weight 1.98 of at most 2.5, more than 98 % of the pairs."
    assert words_of(99, weight=weights).endswith("the most of all 100 pairs.")
    assert words_of(weight=[1.0, 1.0]).endswith("like all 2 pairs.")
    assert words_of(1, weight=[1.0, 2.0, 2.0, 3.0]).endswith("in the middle of the pairs.")
    assert words_of(weight=[1.0]) == "Weight 1 of at most 2.5."


@pytest.mark.parametrize(
    ("margin", "gap", "said"),
    [
        (0.5, 0.25, "Its margin falls by 0.25 at the anchor, from 0.5 to 0.25."),
        (0.25, 0.5, "from 0.25 to -0.25: there the model no longer prefers the chosen response."),
        (-0.25, 0.5, "from -0.25 to -0.75: the model prefers the rejected response in both places."),
        (0.25, -0.5, "Its margin rises by 0.5 at the anchor, from 0.25 to 0.75."),
        (0.25, 0.0, "Its margin stays as it is at the anchor."),
        (None, 0.5, "Its margin falls by 0.5 at the anchor."),
    ],
)
def test_the_gap_is_a_fall_of_the_margin(margin, gap, said):
    assert words_of(margin=[margin], gap=[gap]).endswith(said)


TERMS = {"weight": [1.0, 1.1, 1.2, 1.3], "grad_norm": [9.0, 3.0, 2.0, 1.0], "length_term": [0.3, 0.2, 0.1, 0.05]}
TOKENS = {"chosen_tokens": [6, 20, 20, 40], "rejected_tokens": [8, 20, 20, 40]}
OWN = {"gap_self": [0.48] * 4, "gap_others": [0.02] * 4, "self_share": [0.96] * 4}


def test_a_large_gap_of_short_responses_is_said_to_be_that():
    said = words_of(**TERMS, **TOKENS, **OWN)
    assert "96 % of the gap is its own gradient, which is large, as both responses are short (6 and 8 tokens)." in said
    assert said.endswith("So its length may explain the weight as well as its label does: read it before you drop it.")
    uneven = {"chosen_tokens": [30, 20, 20, 40], "rejected_tokens": [3, 20, 20, 40]}
    assert "as the rejected response is short (3 tokens)." in words_of(**TERMS, **uneven, **OWN)
    assert "its own gradient, although it is small." in words_of(3, **TERMS, **TOKENS, **OWN)


def test_others_that_pull_away_are_a_sign_of_a_wrong_label():
    against = {"gap_self": [0.5] * 4, "gap_others": [-0.1] * 4, "self_share": [1.25] * 4}
    said = words_of(1, **TERMS, **against)
    assert "Its own gradient gives 0.5; the other pairs take 0.1 off it: they pull the other way, as they would" in said
    with_it = {"gap_self": [0.1] * 4, "gap_others": [0.3] * 4, "self_share": [0.25] * 4}
    assert "75 % of the gap comes from the other pairs" in words_of(1, **TERMS, **with_it)


def test_curvature_and_doubt_are_named_when_they_are_large():
    assert "A straight line would give 0.6: the rest is curvature." in words_of(gap=[0.4], curvature=[0.2])
    assert "curvature" not in words_of(gap=[0.4], curvature=[0.02])
    assert "Its gap varies by 0.5, as much as its size: this weight is uncertain." in words_of(
        gap=[0.4], gap_spread=[0.5]
    )
    assert "uncertain" not in words_of(gap=[0.4], gap_spread=[0.1])


def test_labels_that_are_known_are_said():
    assert words_of(flipped=[True], agree=[False]) == "Its label is known to be flipped. The judges do not agree on it."
    assert words_of(flipped=[False], agree=[None]) == ""


def test_nothing_known_is_nothing_said():
    assert explanations(PairView(["a", "b"], [])) == ["", ""]
    assert words_of(weight=[None, 1.0]) == ""


def test_every_pair_of_a_whole_view_has_its_words():
    said = explanations(made_view(200))
    assert len(said) == 200
    assert all(words.startswith("Weight ") and "nan" not in words for words in said)
