"""Laws of reading a verdict: a share of two tokens, the order undone, five labels, and what cannot be read."""

from __future__ import annotations

import math
from decimal import Decimal, getcontext
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapo.evaluate.endpoint import Reply
from gapo.evaluate.readings import (
    first_token_preference,
    for_the_model,
    read_five_labels,
    read_one_token,
    read_three_labels,
    shown_swapped,
)
from gapo.evaluate.verdicts import EMPTY, MALFORMED, OK, TRUNCATED, Reading

getcontext().prec = 50
LOGPROB = st.floats(-700.0, 0.0)


def reply(text: str = "", finish: str = "stop", logprobs=None) -> Reply:
    return Reply(text, finish, "judge-1", logprobs, 0, 0)


def share(first: float, second: float) -> float:
    """P(m) / (P(m) + P(M)) with 50 digits."""
    one, other = Decimal(first).exp(), Decimal(second).exp()
    return float(one / (one + other))


@given(first=LOGPROB, second=LOGPROB, other=LOGPROB, swapped=st.booleans())
@settings(max_examples=200, deadline=None)
def test_the_preference_is_the_share_of_the_models_token(first, second, other, swapped):
    """Whatever else is likely, and in either order: the share of the token that the model's answer was shown under."""
    reading = for_the_model(read_one_token(reply("m", "length", {"m": first, "M": second, "Both": other})), swapped)
    ours, theirs = (second, first) if swapped else (first, second)
    assert reading.status == OK
    assert reading.preference == pytest.approx(share(ours, theirs), abs=1e-12)


@given(first=LOGPROB, second=LOGPROB)
@settings(max_examples=100, deadline=None)
def test_both_orders_of_one_opinion_are_one_preference(first, second):
    """A judge that prefers an answer with some probability says so from whichever side it sees it."""
    one = for_the_model(read_one_token(reply(logprobs={"m": first, "M": second})), False)
    other = for_the_model(read_one_token(reply(logprobs={"m": second, "M": first})), True)
    assert one.preference == pytest.approx(other.preference, abs=1e-12)


def test_a_token_that_is_not_listed_has_no_probability():
    assert first_token_preference({"m": -9.0, "The": -0.1}) == 1.0
    assert first_token_preference({"M": -9.0, "The": -0.1}) == 0.0
    assert first_token_preference({"m": -math.inf, "M": -1.0}) == 0.0
    assert first_token_preference({"The": -0.1}) is None


def test_a_space_before_the_letter_counts_where_the_bare_letter_is_absent():
    assert first_token_preference({" m": -1.0, "▁M": -2.0}) == pytest.approx(share(-1.0, -2.0))
    assert first_token_preference({"m": -1.0, " M": -0.1}) == 1.0  # as AlpacaEval reads it


@pytest.mark.parametrize(
    ("text", "finish", "status", "preference"),
    [
        ("m", "stop", OK, 1.0),
        ("M", "length", OK, 0.0),
        (" **M**.\n", "stop", OK, 0.0),
        ("<think>m? no</think>M", "stop", OK, 0.0),
        ("", "stop", EMPTY, None),
        ("  \n", "stop", EMPTY, None),
        ("", "length", TRUNCATED, None),
        ("<think>so long", "length", TRUNCATED, None),
        ("The better is", "length", TRUNCATED, None),
        ("Both", "length", MALFORMED, None),
        ("m or M", "stop", MALFORMED, None),
    ],
)
def test_without_log_probs_the_letter_decides(text, finish, status, preference):
    reading = read_one_token(reply(text, finish))
    assert (reading.status, reading.preference, reading.text) == (status, preference, text)


@pytest.mark.parametrize(
    ("text", "finish", "status", "preference", "weight"),
    [
        ("so: [[A>>B]]", "stop", OK, 1.0, 3),
        ("[[A>B]]", "stop", OK, 1.0, 1),
        ("tie: [[A=B]], yes [[A=B]]", "stop", OK, 0.5, 1),
        ("[[B>A]]", "length", OK, 0.0, 1),
        ("[[B>>A]]", "stop", OK, 0.0, 3),
        ("[[A>B]] ... no, [[B>A]]", "stop", MALFORMED, None, 1),
        ("[[A>>>B]]", "stop", MALFORMED, None, 1),
        ("A is better", "stop", MALFORMED, None, 1),
        ("A is bet", "length", TRUNCATED, None, 1),
        ("", "stop", EMPTY, None, 1),
        ("<think>[[A>B]] first</think> [[B>A]]", "stop", OK, 0.0, 1),
    ],
)
def test_five_labels(text, finish, status, preference, weight):
    reading = read_five_labels(reply(text, finish))
    assert (reading.status, reading.preference, reading.weight) == (status, preference, weight)


@pytest.mark.parametrize(("text", "preference"), [("[[A]]", 1.0), ("[[B]]", 0.0), ("[[tie]]", 0.5), ("[[D]]", None)])
def test_three_labels(text, preference):
    assert read_three_labels(reply(text)).preference == preference


def test_undoing_the_order_twice_changes_nothing():
    for preference in (None, 0.0, 0.25, 1.0):
        reading = Reading(preference)
        assert for_the_model(for_the_model(reading, True), True) == reading
        assert for_the_model(reading, False) == reading


def test_the_order_of_a_single_game_is_drawn_from_the_instruction_and_balanced():
    prompts = [f"instruction number {number}" for number in range(4000)]
    orders = [shown_swapped(1, prompt, 0) for prompt in prompts]
    assert orders == [shown_swapped(1, prompt, 0) for prompt in prompts]
    assert abs(sum(orders) - 2000) < 4 * math.sqrt(4000 / 4)  # four standard deviations
    assert 0.4 < sum(a == b for a, b in pairwise(orders)) / 3999 < 0.6  # neighbours know nothing


def test_the_order_is_the_one_alpaca_eval_draws():
    """`random_seeded_choice` of alpaca_eval 0.6.6 with its seed 0, run once: True means that m is the model."""
    drawn = {"What is 2+2?": False, "Write a haiku.": False, "Name three rivers.": True, "Explain gravity.": False}
    assert {prompt: not shown_swapped(1, prompt, 0) for prompt in drawn} == drawn


def test_two_games_show_the_reference_first_and_then_the_model():
    assert [shown_swapped(2, "anything", game) for game in (0, 1)] == [True, False]
