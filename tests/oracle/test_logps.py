"""`pair_logps` against the plainest computation there is: full logits of one sequence, token by token, in float64."""

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

import tiny
from gapo.errors import InputError
from gapo.model import head as head_module
from gapo.model.policy import check_logps, pair_logps
from gapo.pairs.collate import PairBatch, collate

EXACT = {"rtol": 0, "atol": 1e-10}


def plain_logp(model, prompt, response):
    """log p(response | prompt), one sequence at a time, without padding."""
    log_probs = model(input_ids=torch.tensor([prompt + response])).logits[0].log_softmax(-1)
    total = torch.zeros((), dtype=log_probs.dtype)
    for i, token in enumerate(response):
        total = total + log_probs[len(prompt) + i - 1, token]
    return total


def plain_logps(model, pairs):
    return tuple(
        torch.stack([plain_logp(model, pair.prompt, getattr(pair, side)) for pair in pairs])
        for side in ("chosen", "rejected")
    )


def plain_margin(model, pairs):
    """Sum over pairs of the margin per token."""
    margins = [
        plain_logp(model, pair.prompt, pair.chosen) / len(pair.chosen)
        - plain_logp(model, pair.prompt, pair.rejected) / len(pair.rejected)
        for pair in pairs
    ]
    return torch.stack(margins).sum()


def trained(model):
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def assert_same_gradients(model, ours, theirs, tolerance=EXACT):
    parameters = trained(model)
    for mine, other in zip(torch.autograd.grad(ours, parameters), torch.autograd.grad(theirs, parameters), strict=True):
        torch.testing.assert_close(mine, other, **tolerance)


def widened(batch, by):
    """The same batch with more padding on the right."""
    pad = torch.nn.functional.pad
    return PairBatch(pad(batch.input_ids, (0, by)), pad(batch.segments, (0, by), value=-1), batch.shared)


def test_log_probs_are_those_of_full_logits_token_by_token(any_model, encoded_pairs):
    ours = pair_logps(any_model, collate(encoded_pairs, tiny.PAD))
    chosen, rejected = plain_logps(any_model, encoded_pairs)
    torch.testing.assert_close(ours.chosen, chosen, **EXACT)
    torch.testing.assert_close(ours.rejected, rejected, **EXACT)
    assert ours.chosen_tokens.tolist() == [len(pair.chosen) for pair in encoded_pairs]
    assert ours.rejected_tokens.tolist() == [len(pair.rejected) for pair in encoded_pairs]


def test_the_gradient_of_the_margins_is_that_of_full_logits(any_model, encoded_pairs):
    ours = pair_logps(any_model, collate(encoded_pairs, tiny.PAD)).margin.sum()
    assert_same_gradients(any_model, ours, plain_margin(any_model, encoded_pairs))


def test_more_padding_changes_nothing(any_model, encoded_pairs):
    batch = collate(encoded_pairs, tiny.PAD)
    ours, padded = pair_logps(any_model, batch), pair_logps(any_model, widened(batch, 7))
    torch.testing.assert_close(padded.chosen, ours.chosen, **EXACT)
    torch.testing.assert_close(padded.rejected, ours.rejected, **EXACT)
    assert torch.equal(padded.chosen_tokens, ours.chosen_tokens)
    assert_same_gradients(any_model, padded.margin.sum(), ours.margin.sum())


def test_the_padding_token_does_not_matter(any_model, encoded_pairs):
    ours = pair_logps(any_model, collate(encoded_pairs, tiny.PAD))
    other = pair_logps(any_model, collate(encoded_pairs, pad_id=2))
    torch.testing.assert_close(other.chosen, ours.chosen, **EXACT)
    torch.testing.assert_close(other.rejected, ours.rejected, **EXACT)


def test_the_order_of_the_pairs_is_the_order_of_their_log_probs(any_model, encoded_pairs):
    order = torch.tensor([3, 0, 4, 2, 1])
    ours = pair_logps(any_model, collate(encoded_pairs, tiny.PAD))[order]
    reordered = pair_logps(any_model, collate([encoded_pairs[i] for i in order], tiny.PAD))
    torch.testing.assert_close(reordered.chosen, ours.chosen, **EXACT)
    torch.testing.assert_close(reordered.rejected, ours.rejected, **EXACT)


def test_one_pair_taken_from_a_batch_keeps_its_log_probs(any_model, encoded_pairs):
    batch = collate(encoded_pairs, tiny.PAD)
    together = pair_logps(any_model, batch)
    for i in range(len(batch)):
        alone = pair_logps(any_model, batch.take(i))
        torch.testing.assert_close(alone.chosen, together.chosen[i : i + 1], **EXACT)
        torch.testing.assert_close(alone.rejected, together.rejected[i : i + 1], **EXACT)


def test_swapping_the_responses_swaps_the_log_probs(llama, encoded_pairs):
    swapped = [tiny.EncodedPair(pair.id, pair.prompt, pair.rejected, pair.chosen) for pair in encoded_pairs]
    ours = pair_logps(llama, collate(encoded_pairs, tiny.PAD)).swapped()
    theirs = pair_logps(llama, collate(swapped, tiny.PAD))
    torch.testing.assert_close(theirs.chosen, ours.chosen, **EXACT)
    torch.testing.assert_close(theirs.margin, ours.margin, **EXACT)


# --- the head -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entries", [1, tiny.VOCABULARY * 3, tiny.VOCABULARY * 7 + 5])
def test_the_head_in_chunks_is_the_head_at_once(any_model, encoded_pairs, monkeypatch, entries):
    batch = collate(encoded_pairs, tiny.PAD)
    at_once = pair_logps(any_model, batch)
    expected = torch.autograd.grad(at_once.margin.sum(), trained(any_model))
    monkeypatch.setattr(head_module, "CHUNK_ENTRIES", entries)
    in_chunks = pair_logps(any_model, batch)
    torch.testing.assert_close(in_chunks.chosen, at_once.chosen, **EXACT)
    torch.testing.assert_close(in_chunks.rejected, at_once.rejected, **EXACT)
    for ours, theirs in zip(torch.autograd.grad(in_chunks.margin.sum(), trained(any_model)), expected, strict=True):
        torch.testing.assert_close(ours, theirs, **EXACT)


def test_no_chunk_of_logits_is_larger_than_asked_for(llama, encoded_pairs, monkeypatch):
    monkeypatch.setattr(head_module, "CHUNK_ENTRIES", 4 * tiny.VOCABULARY)
    seen = []
    llama.lm_head.register_forward_hook(lambda module, inputs, output: seen.append(output.shape))
    batch = collate(encoded_pairs, tiny.PAD)
    pair_logps(llama, batch).margin.sum().backward()
    assert max(positions for positions, _ in seen) == 4
    forward_and_again_in_backward = 2 * int(batch.response_mask.sum())
    assert sum(positions for positions, _ in seen) == forward_and_again_in_backward


def test_the_head_sees_response_positions_only(llama, encoded_pairs):
    seen = []
    llama.lm_head.register_forward_hook(lambda module, inputs, output: seen.append(len(output)))
    pair_logps(llama, collate(encoded_pairs, tiny.PAD))
    assert seen == [sum(len(pair.chosen) + len(pair.rejected) for pair in encoded_pairs)]


def test_gemma_2s_softcap_is_applied(encoded_pairs):
    capped, free = tiny.gemma2(), tiny.gemma2(softcap=None)
    batch = collate(encoded_pairs, tiny.PAD)
    difference = pair_logps(capped, batch).chosen - pair_logps(free, batch).chosen
    assert difference.abs().min() > 1e-3
    assert head_module.head_of(capped).softcap == 1.5


def test_mistrals_window_is_applied(encoded_pairs):
    narrow, wide = tiny.mistral(window=4), tiny.mistral(window=None)
    batch = collate(encoded_pairs, tiny.PAD)
    difference = (pair_logps(narrow, batch).chosen - pair_logps(wide, batch).chosen).abs()
    longer = torch.tensor([len(pair.prompt) + len(pair.chosen) - 1 > 4 for pair in encoded_pairs])
    assert (difference[longer] > 1e-3).all()
    assert (difference[~longer] < 1e-10).all()


@pytest.mark.parametrize("name", sorted(tiny.MODELS))
def test_float32_agrees_with_float64(name, encoded_pairs):
    batch = collate(encoded_pairs, tiny.PAD)
    single, double = (tiny.MODELS[name](dtype=dtype) for dtype in (torch.float32, torch.float64))
    ours, truth = pair_logps(single, batch), pair_logps(double, batch)
    assert ours.chosen.dtype == torch.float32
    torch.testing.assert_close(ours.chosen.double(), truth.chosen, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(ours.rejected.double(), truth.rejected, rtol=1e-5, atol=1e-4)


def test_log_probs_of_a_bfloat16_model_are_summed_in_float32(encoded_pairs):
    ours = pair_logps(tiny.llama(dtype=torch.bfloat16), collate(encoded_pairs, tiny.PAD))
    assert ours.chosen.dtype == torch.float32


# --- the check at the start ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("name", sorted(tiny.MODELS))
def test_the_check_passes_on_every_architecture(name, dtype):
    check_logps(tiny.MODELS[name](dtype=dtype))


class SecretlyScaled(LlamaForCausalLM):
    """Multiplies its logits by something its config does not tell."""

    def forward(self, *args, **kwargs):
        output = super().forward(*args, **kwargs)
        output.logits = output.logits * 1.1
        return output


def test_the_check_refuses_a_model_that_scales_its_logits_in_secret():
    model = tiny.build(SecretlyScaled, LlamaConfig)
    with pytest.raises(InputError, match="SecretlyScaled does something between its hidden states and its logits"):
        check_logps(model)


@pytest.mark.parametrize(("attribute", "factor"), [("logit_scale", 1.1), ("logits_scaling", 1 / 1.1)])
def test_the_check_accepts_a_scale_that_the_config_tells(attribute, factor, encoded_pairs):
    model = tiny.build(SecretlyScaled, LlamaConfig)
    setattr(model.config, attribute, factor)
    check_logps(model)
    chosen, _ = plain_logps(model, encoded_pairs)
    torch.testing.assert_close(pair_logps(model, collate(encoded_pairs, tiny.PAD)).chosen, chosen, **EXACT)


@pytest.mark.parametrize("training", [True, False])
def test_the_check_leaves_the_mode_as_it_was(llama, training):
    check_logps(llama.train(training))
    assert llama.training is training


# --- adapters -----------------------------------------------------------------------------------------------------


def lora(model, **settings):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return get_peft_model(model, LoraConfig(r=4, init_lora_weights=False, task_type="CAUSAL_LM", **settings)).eval()


LORAS = {
    "every layer but the head": {"target_modules": "all-linear"},
    "attention and head": {"target_modules": ["q_proj", "lm_head"]},
    "attention, head trained in full": {"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]},
}


@pytest.mark.parametrize("settings", LORAS.values(), ids=LORAS)
def test_log_probs_of_a_model_with_adapters_are_those_of_its_full_logits(settings, encoded_pairs):
    model = lora(tiny.llama(), **settings)
    if "modules_to_save" in settings:
        with torch.no_grad():  # a copy that was trained: no longer the layer it was copied from
            for name, parameter in model.named_parameters():
                if "modules_to_save" in name:
                    parameter.mul_(1.2)
    check_logps(model)
    ours = pair_logps(model, collate(encoded_pairs, tiny.PAD))
    chosen, rejected = plain_logps(model, encoded_pairs)
    torch.testing.assert_close(ours.chosen, chosen, **EXACT)
    torch.testing.assert_close(ours.rejected, rejected, **EXACT)
    assert_same_gradients(model, ours.margin.sum(), plain_margin(model, encoded_pairs))


def test_with_its_adapters_off_the_model_is_its_own_reference(encoded_pairs):
    batch = collate(encoded_pairs, tiny.PAD)
    model = lora(tiny.llama(), **LORAS["every layer but the head"])
    adapted = pair_logps(model, batch)
    with model.disable_adapter():
        reference = pair_logps(model, batch)
    torch.testing.assert_close(reference.chosen, pair_logps(tiny.llama(), batch).chosen, **EXACT)
    assert (adapted.chosen - reference.chosen).abs().min() > 1e-3
