"""KL per token against a sum over the whole vocabulary in float64."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tiny
from gapo.diagnostics.drift import drift_between
from gapo.errors import InputError
from gapo.evaluate.drift import Response, drift_of, drift_report, responses_of


@torch.no_grad()
def by_hand(p_model, q_model, response):
    """sum over positions of sum_v p (log p - log q), one row at a time."""
    ids = torch.tensor([[*response.prompt, *response.ids]])
    p, q = (
        m(input_ids=ids).logits[0, len(response.prompt) - 1 : -1].log_softmax(-1).numpy() for m in (p_model, q_model)
    )
    return float((np.exp(p) * (p - q)).sum()) / len(response.ids)


MODELS = tiny.llama(), tiny.llama(seed=1)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 6))
def test_each_response_has_the_kl_that_a_plain_sum_gives(seed, count):
    model, base = MODELS
    responses = responses_of(tiny.random_pairs(count, seed=seed))
    found = drift_of(model, base, responses, tiny.PAD)
    assert list(found.tokens) == [len(response.ids) for response in responses]
    np.testing.assert_allclose(found.model_base, [by_hand(model, base, r) for r in responses], rtol=1e-9)
    np.testing.assert_allclose(found.base_model, [by_hand(base, model, r) for r in responses], rtol=1e-9)
    assert (found.model_base > 0).all()


def test_a_model_has_not_moved_from_itself():
    found = drift_of(MODELS[0], MODELS[0], responses_of(tiny.random_pairs(4)), tiny.PAD)
    assert np.abs(found.model_base).max() < 1e-12


def test_the_mean_is_per_token_and_the_one_that_training_logs():
    pairs = tiny.random_pairs(6)
    found = drift_report(drift_of(*MODELS, responses_of(pairs), tiny.PAD))
    assert found["base_model"]["value"] == pytest.approx(drift_between(MODELS[1], MODELS[0], pairs, tiny.PAD), rel=1e-9)
    assert found["tokens"] == sum(len(p.chosen) + len(p.rejected) for p in pairs)


def test_models_of_different_vocabularies_cannot_be_compared():
    with pytest.raises(InputError, match="vocabular"):
        drift_of(MODELS[0], tiny.llama(vocab_size=50), [Response("a", [3], [4], "a")], tiny.PAD)
