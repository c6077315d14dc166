"""The lab's scores come through the judges' own path and are those of the lab's measure."""

from __future__ import annotations

import asyncio
import copy

import pytest
import torch

from gapo.evaluate.questions import Question
from gapo.evaluate.scores import scores_of
from gapo.evaluate.verdicts import read_judging
from gapo.lab.judge import TrueQualityJudge, judge_policy
from gapo.lab.measures import held_out_prompts, length_controlled_win_rate, measure
from gapo.lab.sampling import sample_replies

PROMPTS = 120


@pytest.fixture(scope="module")
def moved(started):
    """A policy that is not the start model, nor anything good."""
    model, tokenizer = started
    policy = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in policy.parameters():
            weight += 0.03 * torch.randn(weight.shape, generator=generator) * weight.std()
    return policy, tokenizer


def test_the_win_rate_is_exactly_that_of_the_measure(started, moved, tmp_path):
    policy, tokenizer = moved
    judging = judge_policy(policy, tokenizer, tmp_path, prompts=PROMPTS, seed=3)
    measured = measure(policy, tokenizer, seed=3, prompts=PROMPTS)
    plain, controlled = scores_of(judging)
    assert plain.value == 100 * measured["win_rate"]
    assert plain.value != 50
    assert plain.name == "win rate on lab"
    ours = sample_replies(policy, tokenizer, held_out_prompts(PROMPTS), 3)
    theirs = sample_replies(*started, held_out_prompts(PROMPTS), 3)
    won = [verdict.preference for verdict in judging.verdicts]
    in_characters = length_controlled_win_rate(won, [len(reply) for reply in ours], [len(reply) for reply in theirs])
    assert controlled.value == pytest.approx(100 * in_characters, abs=1e-3)
    assert controlled.value == pytest.approx(100 * measured["lc_win_rate"], abs=1)  # words instead of characters
    assert [score.value for score in scores_of(read_judging(tmp_path))] == [plain.value, controlled.value]


def test_the_start_model_against_itself_is_even(started, tmp_path):
    judging = judge_policy(*started, tmp_path, prompts=40)
    assert [score.value for score in scores_of(judging)] == pytest.approx([50, 50])
    assert judging.judge_says == judging.judge == "true quality"


def test_the_order_shown_does_not_matter():
    question = Question("0", "describe a red bird that sings in the garden politely :")
    good, poor = "kindly a red bird sings in the garden", "a blue bird"
    judge = TrueQualityJudge()
    said = [asyncio.run(judge.decide(question, good, poor, 0, swapped)) for swapped in (False, True)]
    assert [reading.preference for reading in said] == [1.0, 1.0]
    assert asyncio.run(judge.decide(question, poor, good, 0, False)).preference == 0.0
    assert asyncio.run(judge.decide(question, poor, poor, 0, False)).preference == 0.5
    assert said[0].text == "1.0000 against 0.2000"
