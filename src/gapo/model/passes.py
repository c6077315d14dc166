"""Passes over a batch, chunk by chunk: pairs of like length together, little padding, one chunk's graph at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from gapo.model.logps import PairLogps
from gapo.model.policy import causal_lm, pair_logps
from gapo.model.ranks import joined
from gapo.model.sharding import fresh_weights, gradient_factor, is_sharded
from gapo.pairs.collate import PairBatch, collate
from gapo.pairs.encode import EncodedPair

BATCH_ENTRIES = {
    "cpu": 300_000
}  # padded tokens times hidden size in one forward: small enough for a processor's caches
BATCH_TOKENS_ELSEWHERE = 16384
Backward = Callable[[Tensor], None]
Precision = Callable[[], AbstractContextManager[object]]


def batch_tokens(model: nn.Module) -> int:
    """Padded tokens that one forward should have: many for a narrow model, about a pair at a time for a wide one."""
    device = next(model.parameters()).device
    if device.type not in BATCH_ENTRIES:
        return BATCH_TOKENS_ELSEWHERE
    width = causal_lm(model).get_input_embeddings().weight.shape[1]  # of an adapted layer too
    return max(1, BATCH_ENTRIES[device.type] // int(width))


def chunks_of(model: nn.Module, batch: PairBatch) -> list[tuple[Tensor, PairBatch]]:
    """The batch in unpadded parts that suit the model and its device, each with the places of its pairs."""
    return batch.chunks(batch_tokens(model))


def idle_batch(like: PairBatch) -> PairBatch:
    """A pair that counts for nothing: something to pass through shards while other processes need them."""
    return collate([EncodedPair("idle", [0], [0], [0])], 0, like.shared).to(like.input_ids.device)


def idle_passes(model: nn.Module, own: int) -> int:
    """How many more passes other processes make through the shards that this one holds a part of."""
    return joined().largest(own) - own if is_sharded(model) else 0


@torch.no_grad()
def forward(model: nn.Module, batches: Sequence[PairBatch], precision: Precision = nullcontext) -> PairLogps:
    """Log-probs of all pairs of the batches, in order, without gradient.

    Each forward has a `precision()` of its own: autocast keeps cast weights, and would not see an anchor's move.
    """
    whole = PairBatch.cat(batches)
    chunks = chunks_of(model, whole)
    idle = idle_passes(model, len(chunks))  # asked before the first pass, or one process would ask while others pass
    parts = []
    with fresh_weights(model):
        for places, chunk in chunks:
            with precision():
                parts.append((places, pair_logps(model, chunk)))
        for _ in range(idle):
            with precision():
                pair_logps(model, idle_batch(whole))
    return _in_order(model, parts)


def backward(
    model: nn.Module,
    batches: Sequence[PairBatch],
    loss_of: Callable[[PairLogps, Tensor], Tensor],
    precision: Precision = nullcontext,
    run: Backward = Tensor.backward,
) -> PairLogps:
    """Backward of `loss_of(log-probs, places)` of every chunk, summed; the log-probs met on the way, in order.

    Over shards the gradient is the sum over all processes; over whole weights each process has its own.
    """
    whole = PairBatch.cat(batches)
    chunks = chunks_of(model, whole)
    idle = idle_passes(model, len(chunks))
    factor = gradient_factor(model)
    parts = []
    for places, chunk in chunks:
        with precision():
            policy = pair_logps(model, chunk)
        run(loss_of(policy, places) * factor)
        parts.append((places, policy.detach()))
    for _ in range(idle):
        with precision():
            policy = pair_logps(model, idle_batch(whole))
        run(policy.margin.sum() * 0)
    return _in_order(model, parts)


def _in_order(model: nn.Module, parts: Sequence[tuple[Tensor, PairLogps]]) -> PairLogps:
    """The log-probs of all chunks, as the pairs stand."""
    if not parts:
        weight = next(model.parameters())
        return PairLogps.none(torch.promote_types(weight.dtype, torch.float32), weight.device)
    together = PairLogps.cat([logps for _, logps in parts])
    return together[torch.argsort(torch.cat([places for places, _ in parts])).to(together.chosen.device)]
