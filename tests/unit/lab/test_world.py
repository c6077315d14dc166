"""True quality: graded, bounded, and blind to length."""

import random

import pytest
from scipy.stats import spearmanr

from gapo.lab.skill import all_questions
from gapo.lab.split import split_requests
from gapo.lab.world import MEANING, Request, all_requests, quality, read_request
from gapo.lab.writer import LONGEST, REMARKS, SHORTEST, Carelessness, write_reply

REQUEST = Request("red", "bird", "sings", "garden", "politely")
PERFECT = "kindly a red bird sings in the garden"


def test_a_prompt_reads_as_a_sentence_and_gives_its_request_back():
    assert REQUEST.prompt == "describe a red bird that sings in the garden politely :"
    assert all(read_request(request.prompt) == request for request in all_requests(0)[:500])


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (PERFECT, 1.0),
        ("kindly a pink bird sings in the garden", (4 + 0.3) / 5),  # a neighbour
        ("kindly a plain bird sings in the garden", (4 + 0.1) / 5),  # vague
        ("kindly a blue bird sings in the garden", 4 / 5),  # another colour
        ("a red bird sings in the garden", 4 / 5),  # no tone
        ("kindly a red bird sings in the garden that bird looks blue", 4.5 / 5),  # a contradiction
        ("kindly a red bird sings in the garden today today today", 0.95),  # one pair of words repeated
        ("now", 0.0),
        ("", 0.0),
    ],
)
def test_quality_of_replies_made_by_hand(reply: str, expected: float):
    assert quality(REQUEST.prompt, reply) == pytest.approx(expected)


@pytest.mark.parametrize("remark", REMARKS)
def test_a_neutral_remark_neither_helps_nor_hurts(remark: str):
    assert not set(remark.split()) & set(MEANING)
    assert quality(REQUEST.prompt, f"{PERFECT} {remark}") == 1.0


def test_a_careful_writer_is_perfect_at_every_length():
    care = Carelessness(near=0, vague=0, wrong_tone=0, repeats=0)
    rng = random.Random(0)
    replies = [(request.prompt, write_reply(request, rng, care)) for request in all_requests(0)[:500]]
    assert {quality(prompt, reply) for prompt, reply in replies} == {1.0}
    assert {len(reply.split()) for _, reply in replies} == set(range(SHORTEST, LONGEST + 1))


def test_quality_stays_within_bounds_and_says_nothing_about_length():
    rng = random.Random(0)
    replies = [(request.prompt, write_reply(request, rng)) for request in all_requests(0)[:4000]]
    scores = [quality(prompt, reply) for prompt, reply in replies]
    assert all(0 <= score <= 1 for score in scores)
    assert 0.4 < sum(scores) / len(scores) < 0.6
    assert abs(spearmanr(scores, [len(reply.split()) for _, reply in replies]).statistic) < 0.1


def test_the_four_parts_share_no_prompt():
    split = split_requests(0)
    prompts = [r.prompt for part in (split.train, split.test, split.held_out, split.supervised) for r in part]
    assert len(prompts) == len(set(prompts))


def test_every_sum_has_its_answer():
    answers = {question.prompt: question.answer for question in all_questions()}
    assert answers["add 3 and 4 :"] == "7"
    assert answers["take 3 from 9 :"] == "6"
