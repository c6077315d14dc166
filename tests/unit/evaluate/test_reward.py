"""`pair_rewards` of a real model against log-probs summed by hand in float64."""

import numpy as np
import pytest
import torch

from gapo.errors import InputError
from gapo.evaluate.reward import encode_for, pair_rewards, reward_evaluation, reward_kind, subject_logps
from gapo.evaluate.subject import Subject, load_subject
from gapo.model.reference import reference_logps


def as_float64(name):
    subject = load_subject(name)
    return Subject(subject.model.double(), subject.tokenizer, name)


@torch.no_grad()
def by_hand(subject, pair):
    """(sum of log-probs, tokens) of both responses, a row at a time and without any batch."""
    found = []
    for response in (pair.chosen, pair.rejected):
        ids = torch.tensor([[*pair.prompt, *response]])
        logps = subject.model(input_ids=ids).logits[0].log_softmax(-1)
        at = range(len(pair.prompt), ids.shape[1])
        found.append((sum(float(logps[i - 1, ids[0, i]]) for i in at), len(response)))
    return found


def test_without_a_reference_the_reward_is_the_likelihood_per_token(place):
    subject = as_float64("model")
    pairs = encode_for(subject, "pairs.jsonl")
    rewards = pair_rewards(pairs, reward_kind(None, None).reward, subject_logps(subject, pairs), None)
    wanted = []
    for pair in pairs.encoded:
        (chosen, n), (rejected, m) = by_hand(subject, pair)
        wanted.append(chosen / n - rejected / m)
    np.testing.assert_allclose(rewards.gain, wanted, atol=1e-9)
    found = reward_evaluation(rewards, reward_kind(None, None))
    assert found["accuracy"]["value"] == np.mean(np.array(wanted) > 0)
    assert set(found["subsets"]) == {"easy", "hard"}
    assert found["subsets"]["easy"]["accuracy"]["value"] == np.mean(np.array(wanted)[::2] > 0)
    lengths = np.array([len(p.chosen) - len(p.rejected) for p in pairs.pairs])
    prefers_longer = (np.array(wanted) > 0) == (lengths > 0)
    assert found["longer_wins"]["value"] == pytest.approx(prefers_longer[lengths != 0].mean())


def test_with_a_reference_it_is_dpos_implicit_reward(place):
    subject, reference = as_float64("model"), as_float64("other")
    pairs = encode_for(subject, "pairs.jsonl")
    kind = reward_kind(None, "other")
    rewards = pair_rewards(pairs, kind.reward, subject_logps(subject, pairs), subject_logps(reference, pairs))
    wanted = []
    for pair in pairs.encoded:
        sides = [[total for total, _ in by_hand(one, pair)] for one in (subject, reference)]
        wanted.append((sides[0][0] - sides[1][0]) - (sides[0][1] - sides[1][1]))
    np.testing.assert_allclose(rewards.gain, wanted, atol=1e-8)


def test_a_model_against_itself_ties_everywhere(place):
    subject = as_float64("model")
    pairs = encode_for(subject, "pairs.jsonl")
    logps = subject_logps(subject, pairs)
    found = reward_evaluation(
        pair_rewards(pairs, reward_kind("dpo", "model").reward, logps, logps), reward_kind("dpo", "model")
    )
    assert found["accuracy"]["value"] == 0.5
    assert found["margin"]["value"] == 0.0


def test_log_probs_that_are_kept_are_the_same_and_computed_once(place, monkeypatch):
    subject = as_float64("model")
    pairs = encode_for(subject, "pairs.jsonl")
    found = subject_logps(subject, pairs)
    first = subject_logps(subject, pairs, kept=True)
    monkeypatch.setattr(type(subject.model.model), "forward", lambda *_, **__: pytest.fail("computed again"))
    for kept in (first, reference_logps(subject.model, pairs.encoded, subject.pad_id)):
        torch.testing.assert_close(kept.margin, found.margin, atol=1e-9, rtol=0)


@pytest.mark.parametrize(
    ("objective", "reference", "words"),
    [
        ("dpo", None, "name it with --reference"),
        ("simpo", "other", "needs no reference"),
        ("dpoo", None, "did you mean"),
    ],
)
def test_a_reward_that_cannot_be_is_refused_in_a_sentence(objective, reference, words):
    with pytest.raises(InputError, match=words):
        reward_kind(objective, reference)
