"""Laws of the measures."""

import copy

import numpy as np
import pytest
import torch

from gapo.lab.measures import held_out_prompts, kl_drift, length_controlled_win_rate, measure, win_rate, wins
from gapo.lab.sampling import sample_replies


@pytest.fixture
def scores() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 5, 300) / 4, rng.integers(0, 5, 300) / 4


def test_win_rates_of_two_sides_add_up_to_one(scores):
    ours, theirs = scores
    assert win_rate(ours, theirs) + win_rate(theirs, ours) == pytest.approx(1)


def test_a_tie_counts_one_half(scores):
    assert win_rate(scores[0], scores[0]) == 0.5
    assert win_rate([1, 0, 1], [0, 0, 1]) == pytest.approx((1 + 0.5 + 0.5) / 3)


def test_at_equal_lengths_the_controlled_rate_is_the_plain_rate(scores):
    lengths = np.arange(300)
    assert length_controlled_win_rate(wins(*scores), lengths, lengths) == win_rate(*scores)


@pytest.mark.parametrize("outcome", [0.0, 1.0])
def test_a_clean_sweep_stays_one(outcome):
    assert length_controlled_win_rate(np.full(10, outcome), np.arange(10), np.zeros(10)) == outcome


def test_control_takes_back_what_a_judge_gives_to_length():
    rng = np.random.default_rng(1)
    difference = rng.normal(4, 4, 4000)  # ours are longer by four words
    merit = rng.logistic(0, 1, 4000)  # and no better
    won = (merit + 0.3 * difference > 0).astype(float)
    zeros = np.zeros(4000)
    controlled = length_controlled_win_rate(won, difference, zeros)
    assert won.mean() > 0.65
    assert controlled == pytest.approx(0.5, abs=0.05)
    assert length_controlled_win_rate(1 - won, zeros, difference) == pytest.approx(1 - controlled, abs=1e-3)


def test_control_keeps_an_advantage_that_length_does_not_explain():
    rng = np.random.default_rng(2)
    won = (rng.random(4000) < 0.7).astype(float)
    assert length_controlled_win_rate(won, rng.normal(5, 3, 4000), np.zeros(4000)) == pytest.approx(0.7, abs=0.1)


def test_length_deciding_everything_still_gives_a_rate():
    difference = np.linspace(-1, 2, 100)
    assert 0 < length_controlled_win_rate((difference > 0).astype(float), difference, np.zeros(100)) < 1


def test_the_start_model_has_not_drifted_and_a_moved_one_has(started):
    model, tokenizer = started
    prompts = held_out_prompts(40)
    replies = sample_replies(model, tokenizer, prompts, seed=0)
    drifts = [kl_drift(_moved(model, distance), model, tokenizer, prompts, replies) for distance in (0.0, 0.01, 0.02)]
    assert drifts[0] == 0
    assert 0 < drifts[1] < drifts[2]


def _moved(model, distance: float):
    moved = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in moved.parameters():
            parameter.add_(distance * torch.randn(parameter.shape, generator=generator))
    return moved


def test_the_start_model_measured_against_itself(started):
    model, tokenizer = started
    result = measure(model, tokenizer, prompts=60)
    assert result["win_rate"] == result["lc_win_rate"] == 0.5
    assert result["quality"] == result["start_quality"]
    assert result["skill_kept"] == result["start_skill"]
    assert result["drift"] == 0
    assert 8 < result["mean_reply_tokens"] < 20


def test_the_number_of_held_out_prompts_has_a_limit():
    with pytest.raises(ValueError, match="between 1 and 1000"):
        held_out_prompts(1001)
