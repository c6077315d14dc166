"""Both responses in one row are what they are in rows of their own: log-probs and every gradient, in float64."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from peft import LoraConfig, get_peft_model
from torch import nn

import literal
import tiny
from gapo.anchor.engines import AnchorSettings, probe
from gapo.errors import InputError
from gapo.model import attention
from gapo.model.attention import SEGMENTED, allowed, shared_attention
from gapo.model.policy import backbone_of, batch_hidden, pair_logps
from gapo.pairs.collate import PairBatch, collate
from gapo.pairs.encode import EncodedPair

EXACT = {"rtol": 0, "atol": 1e-9}
ids = st.lists(st.integers(3, tiny.VOCABULARY - 1), min_size=1, max_size=12)
pairs_of_any_length = st.lists(st.builds(EncodedPair, st.just("pair"), ids, ids, ids), min_size=1, max_size=4)


def gradient(model, value):
    return torch.autograd.grad(value, [p for p in model.parameters() if p.requires_grad], retain_graph=True)


def assert_same(model, found, expected):
    """Log-probs, and the gradient of a sum in which every response counts differently."""
    weights = torch.arange(1.0, len(expected) + 1, dtype=expected.chosen.dtype)
    torch.testing.assert_close(found.chosen, expected.chosen, **EXACT)
    torch.testing.assert_close(found.rejected, expected.rejected, **EXACT)
    assert torch.equal(found.chosen_tokens, expected.chosen_tokens)
    assert torch.equal(found.rejected_tokens, expected.rejected_tokens)
    sums = [(weights * (part.chosen_mean - 0.3 * part.rejected_mean)).sum() for part in (found, expected)]
    for ours, theirs in zip(gradient(model, sums[0]), gradient(model, sums[1]), strict=True):
        torch.testing.assert_close(ours, theirs, **EXACT)


def one_row_each(model, batch):
    parts = [pair_logps(model, batch.take(i)) for i in range(len(batch))]
    return type(parts[0]).cat(parts)


@pytest.mark.parametrize("name", sorted(tiny.MODELS))
@settings(max_examples=8, deadline=None)
@given(pairs=pairs_of_any_length)
def test_shared_rows_are_two_rows_padded_together_or_one_at_a_time(name, pairs):
    model = tiny.MODELS[name]()
    expected = pair_logps(model, collate(pairs, tiny.PAD))
    shared = collate(pairs, tiny.PAD, shared=True)
    assert_same(model, pair_logps(model, shared), expected)
    assert_same(model, one_row_each(model, shared), expected)


LENGTHS = {
    "single tokens": ((1, 1), (1, 1)),
    "prompts longer than the window": ((9, 14), (1, 3)),
    "responses longer than the window": ((1, 2), (6, 12)),
}


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_shared_rows_are_the_literal_computation(any_model, lengths):
    prompt, response = lengths
    pairs = tiny.random_pairs(3, seed=7, prompt=prompt, response=response)
    truth = sum(literal.margin(any_model, pair) for pair in pairs)
    expected = gradient(any_model, truth)
    shared = collate(pairs, tiny.PAD, shared=True)
    for found in (pair_logps(any_model, shared), one_row_each(any_model, shared)):
        torch.testing.assert_close(found.margin.sum(), truth, **EXACT)
        for ours, theirs in zip(gradient(any_model, found.margin.sum()), expected, strict=True):
            torch.testing.assert_close(ours, theirs, **EXACT)


@pytest.mark.parametrize("strategy", ["batch", "instance"])
def test_gaps_are_the_same_in_both_layouts(llama, encoded_pairs, strategy):
    two, one = (
        probe(llama, [collate(encoded_pairs, tiny.PAD, shared)], AnchorSettings(strategy=strategy))
        for shared in (False, True)
    )
    torch.testing.assert_close(one.gap, two.gap, **EXACT)
    assert one.direction_norm == pytest.approx(two.direction_norm, rel=1e-9)


def test_more_padding_changes_nothing(any_model, encoded_pairs):
    batch = collate(encoded_pairs, tiny.PAD, shared=True)
    pad = torch.nn.functional.pad
    wider = PairBatch(pad(batch.input_ids, (0, 9), value=2), pad(batch.segments, (0, 9), value=-1), shared=True)
    assert_same(any_model, pair_logps(any_model, wider), pair_logps(any_model, batch))


def test_the_rejected_response_does_not_see_the_chosen_one(any_model):
    ours, other = (
        pair_logps(any_model, collate([EncodedPair("a", [5, 6], chosen, [9, 10])], tiny.PAD, shared=True)).rejected
        for chosen in ([7, 8], [11, 12])
    )
    assert torch.equal(ours, other)


def test_windows_of_mixed_layers_each_have_their_mask(encoded_pairs):
    from transformers import Qwen2Config, Qwen2ForCausalLM

    options = {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1, "num_key_value_heads": 2}
    model = tiny.build(Qwen2ForCausalLM, Qwen2Config, **options)
    assert set(model.config.layer_types) == {"full_attention", "sliding_attention"}
    expected = pair_logps(model, collate(encoded_pairs, tiny.PAD))
    shared = collate(encoded_pairs, tiny.PAD, shared=True)
    assert_same(model, pair_logps(model, shared), expected)
    assert_same(model, one_row_each(model, shared), expected)


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
def test_both_kernels_get_the_mask_they_understand(kernel, encoded_pairs):
    model = tiny.llama(attention=kernel)
    shared = collate(encoded_pairs, tiny.PAD, shared=True)
    assert_same(model, pair_logps(model, shared), pair_logps(model, collate(encoded_pairs, tiny.PAD)))
    with shared_attention(backbone_of(model), shared) as inputs:
        kind = inputs["attention_mask"].dtype
    assert kind == (torch.bool if kernel == "sdpa" else torch.float64)


def test_a_bool_mask_would_be_silently_wrong_with_eager_attention(encoded_pairs, monkeypatch):
    """Why the kind of mask matters: no error, other numbers."""
    model = tiny.llama(attention="eager", dtype=torch.float32)
    shared = collate(encoded_pairs, tiny.PAD, shared=True)
    right = pair_logps(model, shared).margin
    monkeypatch.setattr(attention, "_mask_kind", lambda kernel: "bool")
    assert (pair_logps(model, shared).margin - right).abs().max() > 1e-2


@pytest.mark.parametrize("kernel", ["flash_attention_2", "flash_attention_3", "flex_attention", "paged|sdpa"])
def test_kernels_that_would_ignore_the_mask_are_refused(llama, encoded_pairs, kernel):
    llama.config._attn_implementation = kernel
    with pytest.raises(InputError, match="does not take the mask of a shared row"):
        pair_logps(llama, collate(encoded_pairs, tiny.PAD, shared=True))


# --- one row in two calls -----------------------------------------------------------------------------------------


@pytest.fixture
def calls(monkeypatch):
    """Shapes of every call of scaled_dot_product_attention from our own function."""
    seen = []
    stock = attention.scaled_dot_product_attention
    spy = lambda q, *args, **options: seen.append(q.shape[2]) or stock(q, *args, **options)  # noqa: E731
    monkeypatch.setattr(attention, "scaled_dot_product_attention", spy)
    return seen


PAIR = EncodedPair("a", [5, 6, 7], [8, 9], [10, 11, 12, 13])


def test_one_row_is_attended_in_two_calls_a_layer(llama, calls):
    batch_hidden(llama, collate([PAIR], tiny.PAD, shared=True))
    assert calls == [5, 4, 5, 4]


def test_several_rows_windows_and_checkpoints_go_by_the_mask(llama, calls):
    batch_hidden(llama, collate([PAIR, PAIR], tiny.PAD, shared=True))
    batch_hidden(tiny.mistral(window=4), collate([PAIR], tiny.PAD, shared=True))
    batch_hidden(tiny.llama(attention="eager"), collate([PAIR], tiny.PAD, shared=True))
    llama.gradient_checkpointing_enable()
    batch_hidden(llama.train(), collate([PAIR], tiny.PAD, shared=True))
    assert calls == []
    batch_hidden(tiny.mistral(window=7), collate([PAIR], tiny.PAD, shared=True))  # as long as the sequence
    assert calls


def test_gradient_checkpointing_changes_nothing(encoded_pairs):
    model = tiny.llama()
    shared = collate(encoded_pairs, tiny.PAD, shared=True)
    expected = gradient(model, one_row_each(model, shared).margin.sum())
    model.gradient_checkpointing_enable()
    model.train()
    for ours, theirs in zip(gradient(model, one_row_each(model, shared).margin.sum()), expected, strict=True):
        torch.testing.assert_close(ours, theirs, **EXACT)


def test_a_backbone_that_keeps_the_segments_from_its_layers_is_still_right(llama, calls, monkeypatch):
    expected = pair_logps(llama, collate([PAIR], tiny.PAD))
    forward = llama.model.forward
    monkeypatch.setattr(llama.model, "forward", lambda segments=None, **inputs: forward(**inputs))
    found = pair_logps(llama, collate([PAIR], tiny.PAD, shared=True))
    torch.testing.assert_close(found.margin, expected.margin, **EXACT)
    assert calls == []


def test_the_kernel_comes_home_after_an_error(llama):
    with (
        pytest.raises(RuntimeError, match="on the way"),
        shared_attention(llama.model, collate([PAIR], tiny.PAD, shared=True)),
    ):
        assert llama.config._attn_implementation == SEGMENTED
        raise RuntimeError("on the way")
    assert llama.config._attn_implementation == "sdpa"


def test_no_query_is_left_without_a_key():
    batch = collate([PAIR, EncodedPair("b", [5], [6], [7])], tiny.PAD, shared=True)
    for window in (None, 1, 2):
        assert allowed(batch, window).any(-1).all()


# --- tied embeddings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", ["llama_tied", "qwen2", "gemma2"])
def test_a_tied_embedding_has_a_dense_gradient_equal_to_the_untied_sum(name, shared, encoded_pairs, monkeypatch):
    model = tiny.MODELS[name]()
    embedding, batch = model.get_input_embeddings(), collate(encoded_pairs, tiny.PAD, shared)
    during = []
    embedding.register_forward_hook(lambda module, inputs, output: during.append(module.sparse))
    pair_logps(model, batch).margin.sum().backward()
    ours = embedding.weight.grad
    assert during == [True]
    assert not embedding.sparse
    assert ours.layout is torch.strided
    model.zero_grad()
    model.lm_head.register_forward_hook(lambda *_: None)  # no longer a plain matrix: autograd's own way
    pair_logps(model, batch).margin.sum().backward()
    assert during == [True, False]
    torch.testing.assert_close(ours, embedding.weight.grad, **EXACT)


def test_gradients_stay_dense_where_the_sum_would_not_be(encoded_pairs):
    def frozen_head(model):
        model.lm_head.weight = nn.Parameter(model.lm_head.weight.detach().clone(), requires_grad=False)
        return model

    for model in (tiny.llama(), frozen_head(tiny.llama_tied())):
        pair_logps(model, collate(encoded_pairs, tiny.PAD, shared=True)).margin.sum().backward()
        assert all(p.grad.layout is torch.strided for p in model.parameters() if p.requires_grad)


def test_the_embedding_comes_home_after_an_error(encoded_pairs, monkeypatch):
    model = tiny.llama_tied()
    monkeypatch.setattr(model.model, "forward", lambda **_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        pair_logps(model, collate(encoded_pairs, tiny.PAD))
    assert not model.get_input_embeddings().sparse


# --- adapters and lower precision ---------------------------------------------------------------------------------

ADAPTERS = {
    "every layer": {"target_modules": "all-linear"},
    "head and embedding": {"target_modules": ["q_proj", "lm_head", "embed_tokens"]},
    "head and embedding in full": {"target_modules": ["q_proj"], "modules_to_save": ["lm_head", "embed_tokens"]},
}


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("settings", ADAPTERS.values(), ids=ADAPTERS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_model_with_adapters_shares_too_and_its_gradients_are_dense(settings, tied, encoded_pairs):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        config = LoraConfig(r=4, init_lora_weights=False, task_type="CAUSAL_LM", **settings)
        model = get_peft_model(tiny.llama(tied=tied), config).eval()
    expected = pair_logps(model, collate(encoded_pairs, tiny.PAD))
    shared = collate(encoded_pairs, tiny.PAD, shared=True)
    assert_same(model, pair_logps(model, shared), expected)
    assert_same(model, one_row_each(model, shared), expected)
    pair_logps(model, shared).margin.sum().backward()
    assert all(p.grad.layout is torch.strided for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("name", sorted(tiny.MODELS))
def test_under_autocast_layouts_agree_to_bf16(name, encoded_pairs):
    model = tiny.MODELS[name](dtype=torch.float32)
    shared = collate(encoded_pairs, tiny.PAD, shared=True)
    with torch.autocast("cpu", torch.bfloat16):
        two, padded, alone = (
            pair_logps(model, collate(encoded_pairs, tiny.PAD)),
            pair_logps(model, shared),
            one_row_each(model, shared),
        )
    for found in (padded, alone):
        assert found.chosen.dtype == torch.float32
        torch.testing.assert_close(found.margin, two.margin, rtol=0, atol=0.1)
    alone.margin.sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
