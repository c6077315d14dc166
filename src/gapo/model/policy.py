"""The log-probs of a batch under a policy: one forward for both responses of every pair."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gapo.errors import InputError
from gapo.model.attention import shared_attention
from gapo.model.head import Head, head_of
from gapo.model.logps import PairLogps
from gapo.model.sharding import as_forward
from gapo.pairs.collate import PairBatch


def causal_lm(model: nn.Module) -> Any:
    """The transformers model inside wrappers of peft and torch."""
    model = getattr(model, "module", model)
    model = getattr(model, "_orig_mod", model)
    return model.get_base_model() if hasattr(model, "get_base_model") else model  # type: ignore[operator]


def fitting_length(model: nn.Module, asked: int) -> int:
    """So many tokens, or what the model has positions for if that is less: beyond them nothing was learned."""
    positions = getattr(model.config, "max_position_embeddings", None)
    return min(asked, int(positions)) if positions else asked  # type: ignore[arg-type]


def backbone_of(model: nn.Module) -> Any:
    """The part of the model that ends in its last hidden state."""
    inner = causal_lm(model)
    return getattr(inner, str(inner.base_model_prefix))


def last_hidden(model: nn.Module, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
    """Hidden states of plain rows after the final norm, before the head."""
    output = backbone_of(model)(input_ids=input_ids, attention_mask=attention_mask, use_cache=False)
    return output.last_hidden_state  # type: ignore[no-any-return]


def batch_hidden(model: nn.Module, batch: PairBatch) -> Tensor:
    """Hidden states of a batch, whichever its layout."""
    return _of_backbone(model, batch).last_hidden_state  # type: ignore[no-any-return]


def every_hidden(model: nn.Module, batch: PairBatch) -> tuple[Tensor, ...]:
    """The states that enter each layer, the embedding first, and last of all what `batch_hidden` gives."""
    output = _of_backbone(model, batch, output_hidden_states=True)
    if not output.hidden_states:
        raise InputError(f"{type(causal_lm(model)).__name__} does not show the states of its layers; use gradients")
    return (*output.hidden_states[:-1], output.last_hidden_state)


def _of_backbone(model: nn.Module, batch: PairBatch, **options: bool) -> Any:
    backbone = backbone_of(model)
    if not batch.shared:
        rows = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
        return backbone(**rows, use_cache=False, **options)
    with shared_attention(backbone, batch) as inputs:
        return backbone(input_ids=batch.input_ids, use_cache=False, **inputs, **options)


def pair_logps(model: nn.Module, batch: PairBatch) -> PairLogps:
    """Summed log-probs of the response tokens of every pair in the batch."""
    return _of_pairs(as_forward(model, _response_sums)(batch), batch)


def logps_of_hidden(head: Head, hidden: Tensor, batch: PairBatch) -> PairLogps:
    """The same from hidden states that are already there."""
    return _of_pairs(_summed(head, hidden, batch), batch)


def _of_pairs(sums: Float[Tensor, " responses"], batch: PairBatch) -> PairLogps:
    n, tokens = len(batch), batch.response_counts()
    return PairLogps(sums[:n], sums[n:], tokens[:n], tokens[n:])


def _response_sums(model: nn.Module, batch: PairBatch) -> Float[Tensor, " responses"]:
    """The log-prob of every response, all chosen ones first."""
    head = head_of(causal_lm(model))
    with _sparse_embedding(model, head):
        hidden = batch_hidden(model, batch)
    return _summed(head, hidden, batch)


def _summed(head: Head, hidden: Tensor, batch: PairBatch) -> Float[Tensor, " responses"]:
    rows, positions, ids, owners = batch.response_tokens()
    predicting = hidden.flatten(0, 1).index_select(0, rows * hidden.shape[1] + positions)
    token_logps = head.token_logps(predicting, ids)
    return token_logps.new_zeros(2 * len(batch)).index_add(0, owners, token_logps)


@contextmanager
def _sparse_embedding(model: nn.Module, head: Head) -> Iterator[None]:
    """A tied embedding's gradient as the few rows it has, added to the head's dense one: no second zero tensor.

    Only where that sum is certain to be dense: one weight for both, trained, through `head.fused`; a wrapper that
    hooks gradients, and devices other than the CPU (where this was measured), are left alone.
    """
    embedding = causal_lm(model).get_input_embeddings()
    tied = (
        isinstance(embedding, nn.Embedding)
        and embedding.weight is getattr(head.layer, "weight", None)
        and embedding.weight.requires_grad
        and embedding.weight.device.type == "cpu"
        and not embedding.sparse
        and not embedding.scale_grad_by_freq
    )
    hooked = hasattr(model, "module") or (torch.distributed.is_available() and torch.distributed.is_initialized())
    if hooked or not (tied and head.fused and torch.is_grad_enabled()):
        yield
        return
    embedding.sparse = True
    try:
        yield
    finally:
        embedding.sparse = False


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
    if not bool(torch.isfinite(ours).all()):
        raise InputError(f"{type(inner).__name__} gives log-probs that are not finite; its weights are damaged")
    difference = (ours - theirs.to(ours.dtype).log_softmax(-1)).abs().max().item()
    if not difference < (1e-3 if theirs.dtype in (torch.float32, torch.float64) else 0.1):  # bf16 rounds the logits
        raise InputError(
            f"{type(inner).__name__} does something between its hidden states and its logits that gapo does not "
            f"know (log-probs differ by {difference:.2g}); please report the architecture"
        )
