"""Gradients of all pairs at once against autograd of the literal margin, one pair at a time, in float64."""

from types import MethodType

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, Qwen3Config, Qwen3ForCausalLM

import literal
import tiny
from gapo.model import per_pair
from gapo.model.per_pair import margin_gradients, obstacle
from gapo.model.policy import pair_logps
from gapo.pairs.collate import collate
from gapo.pairs.encode import EncodedPair

EXACT = {"rtol": 1e-9, "atol": 1e-9}
LORA = {"r": 3, "lora_alpha": 6, "lora_dropout": 0.0, "init_lora_weights": False, "task_type": "CAUSAL_LM"}


def assert_exact(model, pairs, shared=False):
    """Each pair's gradient and log-probs are its own, whatever else is in the batch."""
    assert obstacle(model) is None
    trained = [p for p in model.parameters() if p.requires_grad]
    policy, gradients = margin_gradients(model, collate(pairs, tiny.PAD, shared))
    assert [g.shape for g in gradients] == [(len(pairs), *p.shape) for p in trained]
    for i, pair in enumerate(pairs):
        margin = literal.margin(model, pair)
        wanted = torch.autograd.grad(margin, trained, allow_unused=True, materialize_grads=True)
        torch.testing.assert_close(policy.margin[i], margin.detach(), **EXACT)
        for ours, theirs in zip(gradients, wanted, strict=True):
            torch.testing.assert_close(ours[i], theirs, **EXACT)
    return gradients


def train_only(model, *parts):
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(any(part in name for part in parts))
    assert any(p.requires_grad for p in model.parameters())
    return model


def adapted(model, targets):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return get_peft_model(model, LoraConfig(target_modules=targets, **LORA)).double()


@pytest.mark.parametrize("shared", [False, True], ids=["two_rows", "shared"])
def test_every_architecture_is_exact(any_model, encoded_pairs, shared):
    assert_exact(any_model, encoded_pairs, shared)


@pytest.mark.parametrize("build", [tiny.llama, tiny.gemma2, tiny.gpt_neox])
def test_a_pair_alone_is_a_batch_too(build, encoded_pairs):
    assert_exact(build(), encoded_pairs[:1])


def test_norms_of_single_heads_are_exact(encoded_pairs):
    assert_exact(tiny.build(Qwen3ForCausalLM, Qwen3Config, num_key_value_heads=2, head_dim=8), encoded_pairs)


def test_weights_far_from_their_start_are_exact(any_model, encoded_pairs):
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        for parameter in any_model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    assert_exact(any_model, encoded_pairs)


def test_logit_scales_are_exact(encoded_pairs):
    model = tiny.llama_tied()
    plain = assert_exact(model, encoded_pairs)
    model.config.logit_scale = 0.5
    policy, gradients = margin_gradients(model, collate(encoded_pairs, tiny.PAD))
    trained = list(model.parameters())
    for i in range(len(encoded_pairs)):
        margin = pair_logps(model, collate(encoded_pairs[i : i + 1], tiny.PAD)).margin.sum()
        torch.testing.assert_close(policy.margin[i], margin.detach(), **EXACT)
        for ours, theirs in zip(gradients, torch.autograd.grad(margin, trained), strict=True):
            torch.testing.assert_close(ours[i], theirs, **EXACT)
    assert not torch.allclose(plain[0], gradients[0])


@pytest.mark.parametrize("name", ["llama", "llama_tied", "gpt_neox", "gemma2"])
@pytest.mark.parametrize("parts", [["norm"], ["layers.1."], ["embed_"], ["mlp", "bias"]], ids=str)
def test_frozen_parameters_are_left_out(name, parts, encoded_pairs):
    assert_exact(train_only(tiny.MODELS[name](), *parts), encoded_pairs)


def test_the_head_alone_is_exact(llama, encoded_pairs):
    (gradient,) = assert_exact(train_only(llama, "lm_head"), encoded_pairs)
    assert gradient.abs().sum() > 0


@pytest.mark.parametrize("entries", [1, 1500])
def test_the_head_may_take_few_pairs_at_a_time(entries, llama, encoded_pairs, monkeypatch):
    monkeypatch.setattr(per_pair, "CHUNK_ENTRIES", entries)
    assert_exact(train_only(llama, "lm_head", "model.norm"), encoded_pairs)


@pytest.mark.parametrize(
    ("name", "targets"),
    [("llama", ["q_proj", "v_proj"]), ("gpt_neox", ["query_key_value"]), ("gemma2", "all-linear")],
)
def test_adapters_are_exact(name, targets, encoded_pairs):
    model = adapted(tiny.MODELS[name](), targets)
    tiny.keep_double(model)
    gradients = assert_exact(model, encoded_pairs)
    assert all(g.abs().sum() > 0 for g in gradients)


def test_a_padding_token_in_the_text_has_no_gradient_as_an_input():
    """`nn.Embedding` leaves its padding row alone; a tied head does not."""
    pairs = [EncodedPair("a", [5, tiny.PAD, 6], [7, tiny.PAD], [8]), EncodedPair("b", [9], [3], [4, 5, tiny.PAD])]
    for model in (tiny.llama(), tiny.llama_tied()):
        assert model.get_input_embeddings().padding_idx == tiny.PAD
        assert_exact(model, pairs)


def test_nothing_is_left_behind(llama, encoded_pairs):
    before = [p.clone() for p in llama.parameters()]
    margin_gradients(llama, collate(encoded_pairs, tiny.PAD))
    assert all(p.grad is None and p.requires_grad for p in llama.parameters())
    assert all(torch.equal(p, old) for p, old in zip(llama.parameters(), before, strict=True))
    assert not any(module._forward_hooks or module._backward_hooks for module in llama.modules())


def test_no_hook_outlives_an_error(llama, encoded_pairs):
    def fail(self, hidden):
        raise RuntimeError("on the way")

    llama.model.norm.forward = MethodType(fail, llama.model.norm)
    with pytest.raises(RuntimeError, match="on the way"):
        margin_gradients(llama, collate(encoded_pairs, tiny.PAD))
    assert not any(module._forward_hooks for module in llama.modules())


def test_gradients_are_found_inside_no_grad_too(llama, encoded_pairs):
    batch = collate(encoded_pairs, tiny.PAD)
    _, outside = margin_gradients(llama, batch)
    with torch.no_grad():
        _, inside = margin_gradients(llama, batch)
        assert obstacle(llama) is None
    assert all(torch.equal(a, b) for a, b in zip(outside, inside, strict=True))


# ---- what it must not claim ----


def test_unknown_layers_are_named():
    sizes = {"vocab_size": tiny.VOCABULARY, "n_embd": 32, "n_layer": 1, "n_head": 4, "n_positions": 64}
    model = GPT2LMHeadModel(GPT2Config(**sizes)).eval()
    assert "Conv1D" in obstacle(model)
    train_only(model, "wpe")  # one position for all rows: its slope comes back summed
    assert "does not keep the rows" in obstacle(model)


def test_a_known_layer_used_in_an_unknown_way_is_found_out(llama):
    layer = llama.model.layers[0].mlp.up_proj
    llama.model.layers[0].mlp.gate_proj.forward = lambda x: nn.functional.linear(x, layer.weight)
    assert "do not add up" in obstacle(llama)


def test_a_parameter_beside_the_layers_is_named(llama):
    llama.model.layers[1].extra = nn.Parameter(torch.zeros(3))
    assert "model.layers.1 is a LlamaDecoderLayer" in obstacle(llama)


def test_an_adapted_head_is_refused():
    assert "output layer" in obstacle(adapted(tiny.llama(), ["lm_head", "q_proj"]))
