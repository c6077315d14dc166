"""The log-probs of a batch under a policy: one forward for both responses of every pair."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from gapo.errors import InputError
from gapo.model.head import head_of
from gapo.model.logps import PairLogps
from gapo.pairs.collate import PairBatch


def causal_lm(model: nn.Module) -> Any:
    """The transformers model inside wrappers of peft and torch."""
    model = getattr(model, "module", model)
    model = getattr(model, "_orig_mod", model)
    return model.get_base_model() if hasattr(model, "get_base_model") else model  # type: ignore[operator]


def last_hidden(model: nn.Module, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
    """Hidden states after the final norm, before the head."""
    inner = causal_lm(model)
    backbone = getattr(inner, str(inner.base_model_prefix))
    output = backbone(input_ids=input_ids, attention_mask=attention_mask, use_cache=False)
    return output.last_hidden_state  # type: ignore[no-any-return]


def pair_logps(model: nn.Module, batch: PairBatch) -> PairLogps:
    """Summed log-probs of the response tokens of every pair in the batch."""
    hidden = last_hidden(model, batch.input_ids, batch.attention_mask)
    # the token at position t is predicted from the hidden state at t - 1
    rows, positions = batch.response_mask[:, 1:].nonzero(as_tuple=True)
    token_logps = head_of(causal_lm(model)).token_logps(hidden[rows, positions], batch.input_ids[rows, positions + 1])
    sums = token_logps.new_zeros(len(batch.input_ids)).index_add(0, rows, token_logps)
    counts = batch.response_mask.sum(1)
    n = len(batch)
    return PairLogps(sums[:n], sums[n:], counts[:n], counts[n:])


@torch.no_grad()
def check_logps(model: nn.Module) -> None:
    """Refuse a model whose logits are not what `head_of` makes of its hidden states.

    Architectures differ in what happens after the last hidden state. A wrong guess would train the wrong objective
    without a sign, so one short input is put through both ways.
    """
    inner = causal_lm(model)
    head = head_of(inner)
    vocabulary, device = head.vocabulary, next(head.layer.parameters()).device
    input_ids = (torch.arange(8, device=device) * 7919 + 1).remainder(vocabulary)[None]
    mask = torch.ones_like(input_ids)
    was_training = model.training
    model.eval()
    try:
        ours = head.logits(last_hidden(model, input_ids, mask)[0]).log_softmax(-1)
        theirs = inner(input_ids=input_ids, attention_mask=mask, use_cache=False).logits[0]
    finally:
        model.train(was_training)
    difference = (ours - theirs.to(ours.dtype).log_softmax(-1)).abs().max().item()
    if not difference < (1e-3 if theirs.dtype in (torch.float32, torch.float64) else 0.1):  # bf16 rounds the logits
        raise InputError(
            f"{type(inner).__name__} does something between its hidden states and its logits that gapo does not "
            f"know (log-probs differ by {difference:.2g}); please report the architecture"
        )
