"""A float64 model computes in float64 where it is told to, and only there."""

import torch
from transformers import Gemma2Config, Gemma2ForCausalLM, LlamaConfig, LlamaForCausalLM

import tiny
from gapo.model.double import double_copy, kept_double
from gapo.model.policy import pair_logps
from gapo.pairs.collate import collate


def as_transformers_has_it(kind, config, patched):
    """The same weights without the tests' own float64 norms and attention."""
    settings = {**config.to_dict(), "attn_implementation": "eager"}
    model = kind(type(config)(**settings)).eval().double()
    model.load_state_dict(patched.state_dict())
    return model


def margins(model):
    return pair_logps(model, collate(tiny.random_pairs(), tiny.PAD)).margin.detach()


def test_norms_rotations_and_attention_stay_in_float64():
    """Against float64 norms and attention that were written by hand; outside, float32 shows, or NaN."""
    for kind, config, patched in (
        (LlamaForCausalLM, LlamaConfig, tiny.llama(attention="eager")),
        (Gemma2ForCausalLM, Gemma2Config, tiny.gemma2()),
    ):
        assert isinstance(patched.config, config)
        plain = as_transformers_has_it(kind, patched.config, patched)
        with kept_double():
            truth = margins(patched)
            torch.testing.assert_close(margins(plain), truth, rtol=0, atol=1e-12)
        assert not (margins(plain) - truth).abs().max() <= 1e-9


def test_asking_for_float32_gives_float64_inside_and_float32_after():
    ones = torch.ones(3, dtype=torch.float64)
    with kept_double():
        found = [ones.float(), ones.to(torch.float32), ones.to(dtype=torch.float32), torch.arange(3).float()]
        found.append(ones.softmax(0, dtype=torch.float32))
    assert all(value.dtype == torch.float64 for value in found)
    assert ones.float().dtype == torch.float32


def test_a_double_copy_leaves_the_model_alone_and_keeps_what_is_tied():
    model = tiny.llama_tied(dtype=torch.float32).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    copied = double_copy(model)
    assert copied.get_input_embeddings().weight is copied.get_output_embeddings().weight
    assert {p.dtype for p in copied.parameters()} == {torch.float64}
    assert not copied.training
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(value.dtype == torch.float32 for value in model.state_dict().values())
