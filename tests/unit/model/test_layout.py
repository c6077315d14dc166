"""Shared rows where they change nothing, two rows with a reason everywhere else."""

import pytest
import torch
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    GPTNeoConfig,
    GPTNeoForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    MptConfig,
    MptForCausalLM,
)

import tiny
from gapo.errors import InputError
from gapo.model import attention, layout
from gapo.model.layout import choose_layout
from gapo.pairs.collate import row_width

LLAMA = {"dtype": torch.float32}


def bloom():
    return BloomForCausalLM(BloomConfig(vocab_size=tiny.VOCABULARY, hidden_size=32, n_layer=2, n_head=4))


def mpt():
    return MptForCausalLM(MptConfig(vocab_size=tiny.VOCABULARY, d_model=32, n_layers=2, n_heads=4, max_seq_len=64))


def mamba():
    return MambaForCausalLM(MambaConfig(vocab_size=tiny.VOCABULARY, hidden_size=32, num_hidden_layers=2, state_size=4))


def gpt_neo():
    """Windows of its own, counted along the row."""
    settings = {"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "window_size": 12}
    return GPTNeoForCausalLM(GPTNeoConfig(vocab_size=tiny.VOCABULARY, hidden_size=32, **settings))


def flash():
    model = tiny.llama(**LLAMA)
    model.config._attn_implementation = "flash_attention_2"
    return model


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", sorted(tiny.MODELS))
def test_every_model_of_ours_shares(name, dtype):
    layout = choose_layout(tiny.MODELS[name](dtype=dtype), tiny.random_pairs(6), tiny.PAD)
    assert layout.shared, layout.reason
    assert choose_layout(tiny.MODELS[name](dtype=dtype), tiny.random_pairs(1), tiny.PAD, "on").shared


CASES = {
    "ALiBi": (bloom, "ALiBi"),
    "ALiBi in MPT": (mpt, "ALiBi"),
    "a state": (mamba, "linear_attention"),
    "a window along the row": (gpt_neo, "gives other log-probs"),
    "a kernel without masks": (flash, "flash_attention_2 does not take the mask"),
}


@pytest.mark.parametrize(("make", "reason"), CASES.values(), ids=CASES)
def test_others_fall_back_with_the_reason_and_on_raises_it(make, reason):
    pairs = tiny.random_pairs(6, response=(8, 12))
    layout = choose_layout(make(), pairs, tiny.PAD)
    assert not layout.shared
    assert layout.reason.startswith("two rows a pair: ")
    assert reason in layout.reason
    with pytest.raises(InputError, match="pairs cannot share their prompt"):
        choose_layout(make(), pairs, tiny.PAD, "on")


def test_off_is_off_and_other_wishes_are_unknown(llama):
    assert not choose_layout(llama, tiny.random_pairs(2), tiny.PAD, "off").shared
    with pytest.raises(InputError, match="unknown layout 'onn'"):
        choose_layout(llama, tiny.random_pairs(2), tiny.PAD, "onn")


def test_a_limit_that_only_long_pairs_meet_is_found(monkeypatch):
    """The mask forgets the window: short pairs do not notice."""
    monkeypatch.setattr(attention, "_windows", lambda config: {"every": None})
    model = tiny.mistral(window=16)
    short, long = tiny.random_pairs(4), tiny.random_pairs(1, prompt=(20, 20))
    assert choose_layout(model, short, tiny.PAD).shared
    layout = choose_layout(model, [*short, *long], tiny.PAD)
    assert not layout.shared
    assert "a pair of" in layout.reason


def test_a_wrong_one_row_path_is_found(monkeypatch):
    """Only the segmented attention errs: several padded rows are right."""
    stock = attention.scaled_dot_product_attention
    wrong = lambda *args, attn_mask=None, **options: stock(*args, attn_mask=None, **options)  # noqa: E731
    monkeypatch.setattr(attention, "scaled_dot_product_attention", wrong)
    assert not choose_layout(tiny.llama(**LLAMA), tiny.random_pairs(4), tiny.PAD).shared


def test_a_forward_that_raises_is_a_reason(monkeypatch, llama):
    forward = llama.model.forward

    def no_positions(input_ids, attention_mask, use_cache):
        return forward(input_ids=input_ids, attention_mask=attention_mask, use_cache=use_cache)

    monkeypatch.setattr(llama.model, "forward", no_positions)
    assert "cannot read a shared row (TypeError" in choose_layout(llama, tiny.random_pairs(3), tiny.PAD).reason


def test_a_wrong_gradient_is_found(monkeypatch, llama):
    """Right log-probs, but the second call of a one-row attention forgets its backward."""
    stock = attention.scaled_dot_product_attention

    def forgetful(*args, is_causal=False, **options):
        found = stock(*args, is_causal=is_causal, **options)
        return found if is_causal else found.detach()

    monkeypatch.setattr(attention, "scaled_dot_product_attention", forgetful)
    assert "gives another gradient" in choose_layout(llama, tiny.random_pairs(4), tiny.PAD).reason


def test_nothing_is_left_behind(llama):
    choose_layout(llama.train(), tiny.random_pairs(3), tiny.PAD)
    assert llama.training
    assert all(p.grad is None for p in llama.parameters())
    assert llama.config._attn_implementation == "sdpa"


def test_a_model_with_nothing_to_train_is_compared_too(llama):
    assert choose_layout(llama.requires_grad_(False), tiny.random_pairs(3), tiny.PAD).shared


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("limit", [384, 12])
def test_a_few_telling_pairs_stand_for_all(llama, seed, limit, monkeypatch):
    """Comparing on them is comparing on the whole set: the same shortest pairs and the same long one."""
    monkeypatch.setattr(layout, "LONG", limit)
    pairs = tiny.random_pairs(30, seed=seed)
    by_length = sorted(pairs, key=lambda pair: row_width(pair, shared=False))
    long = next((pair for pair in by_length if row_width(pair, shared=False) > limit), by_length[-1])
    few = layout.telling_pairs(llama, pairs)
    assert len(few) == 3
    for some in (pairs, few):
        short, longest = layout._short_and_long(llama, some)
        assert [some[i] for i in short] == by_length[:2]
        assert some[longest] == long
    assert layout.telling_pairs(llama, pairs[:1]) == pairs[:1]
