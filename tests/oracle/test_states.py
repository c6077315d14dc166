"""What a forward tells of a pair, against its definition: plain rows, one response at a time, autograd for the head."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import tiny
from gapo.consensus.direction import units
from gapo.consensus.sketch import SEED, SIZE, Signs
from gapo.consensus.states import WORDS, StateSketches, _states_and_surprises
from gapo.errors import InputError
from gapo.model import policy
from gapo.model.policy import every_hidden, last_hidden
from gapo.pairs.collate import collate

FAMILIES = [tiny.llama, tiny.llama_tied, tiny.gpt_neox, tiny.qwen2]


def words_of(model, dtype=torch.float64):
    draw = torch.Generator().manual_seed(SEED)
    return (torch.randint(0, 2, (model.config.vocab_size, WORDS), generator=draw) * 2 - 1).to(dtype)


def response(model, prompt, reply):
    """Hidden states of every layer where the reply is predicted, and the log-probs there, from a row of its own."""
    ids = torch.tensor([[*prompt, *reply]])
    output = model.base_model(input_ids=ids, output_hidden_states=True, use_cache=False)
    at = slice(len(prompt) - 1, ids.shape[1] - 1)
    layers = [state[0, at] for state in (*output.hidden_states[:-1], output.last_hidden_state)]
    logps = model.get_output_embeddings()(layers[-1]).log_softmax(-1)
    return layers, logps, torch.tensor(reply)


def by_hand(model, pair):
    (chosen, _, _), (rejected, _, _) = (response(model, pair.prompt, r) for r in (pair.chosen, pair.rejected))
    differences = [one.mean(0) - other.mean(0) for one, other in zip(chosen, rejected, strict=True)]
    return torch.cat([d / d.norm() for d in differences])


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_states_are_differences_of_means_with_every_layer_of_length_one(family, shared):
    model, pairs = family(dtype=torch.float64), tiny.random_pairs(5)
    with torch.no_grad():
        states, _ = _states_and_surprises(model, collate(pairs, tiny.PAD, shared), words_of(model))
        for found, pair in zip(states, pairs, strict=True):
            torch.testing.assert_close(found, by_hand(model, pair), rtol=0, atol=1e-10)


@pytest.mark.parametrize("shared", [True, False])
def test_surprises_are_the_margins_gradient_by_the_heads_weights(shared):
    model, pairs = tiny.llama(dtype=torch.float64), tiny.random_pairs(5)
    words = words_of(model)
    with torch.no_grad():
        _, surprises = _states_and_surprises(model, collate(pairs, tiny.PAD, shared), words)
    for found, pair in zip(surprises, pairs, strict=True):
        means = []
        for reply in (pair.chosen, pair.rejected):
            layers, _, ids = response(model, pair.prompt, reply)
            logps = model.lm_head(layers[-1].detach()).log_softmax(-1)
            means.append(logps.gather(1, ids[:, None]).mean())
        (gradient,) = torch.autograd.grad(means[0] - means[1], model.lm_head.weight)
        torch.testing.assert_close(found, (words.T @ gradient).flatten(), rtol=0, atol=1e-9)


def test_a_sketch_is_both_folded_with_equal_lengths():
    model, pairs = tiny.llama(dtype=torch.float32), tiny.random_pairs(4)
    batch = collate(pairs, tiny.PAD, True)
    with torch.no_grad():
        found = StateSketches(model)(batch)
        both = _states_and_surprises(model, batch, words_of(model, torch.float32))
    signs = Signs([part.shape[1] for part in both])
    flat, start, total = [part.numpy().astype(float) for part in signs._signs], 0, np.zeros((4, SIZE))
    for sign, part in zip(flat, both, strict=True):
        sketch = np.zeros((4, SIZE))
        for entry in range(part.shape[1]):
            sketch[:, (start + entry) % SIZE] += sign[entry] * part[:, entry].double().numpy()
        total += sketch / np.linalg.norm(sketch, axis=1, keepdims=True)
        start += part.shape[1]
    np.testing.assert_allclose(found.numpy(), total, atol=1e-5)


def test_the_other_label_is_the_same_sketch_with_another_sign():
    model, pairs = tiny.llama(dtype=torch.float64), tiny.random_pairs(6)
    turned = [replace(pair, chosen=pair.rejected, rejected=pair.chosen) for pair in pairs]
    sketches = StateSketches(model)
    with torch.no_grad():
        one, other = (units(sketches(collate(some, tiny.PAD, True))) for some in (pairs, turned))
    torch.testing.assert_close(one, -other, rtol=0, atol=1e-6)


def test_the_last_of_the_states_is_the_one_before_the_head():
    model = tiny.llama(dtype=torch.float64)
    batch = collate(tiny.random_pairs(3), tiny.PAD, False)
    with torch.no_grad():
        states = every_hidden(model, batch)
        assert len(states) == model.config.num_hidden_layers + 1
        assert torch.equal(states[-1], last_hidden(model, batch.input_ids, batch.attention_mask))
        assert torch.equal(states[0], model.get_input_embeddings()(batch.input_ids))


def test_a_model_that_shows_no_states_is_answered_in_words(monkeypatch):
    monkeypatch.setattr(policy, "_of_backbone", lambda *_, **__: SimpleNamespace(hidden_states=None))
    with pytest.raises(InputError, match="LlamaForCausalLM does not show the states of its layers; use gradients"):
        every_hidden(tiny.llama(), collate(tiny.random_pairs(2), tiny.PAD, False))
