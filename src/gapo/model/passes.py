"""Passes over a batch, chunk by chunk: pairs of like length together, little padding, one chunk's graph at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from gapo.model.logps import PairLogps
from gapo.model.policy import causal_lm, pair_logps
from gapo.pairs.collate import PairBatch

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


@torch.no_grad()
def forward(model: nn.Module, batches: Sequence[PairBatch], precision: Precision = nullcontext) -> PairLogps:
    """Log-probs of all pairs of the batches, in order, without gradient.

    Each forward has a `precision()` of its own: autocast keeps cast weights, and would not see an anchor's move.
    """
    parts = []
    for places, chunk in chunks_of(model, PairBatch.cat(batches)):
        with precision():
            parts.append((places, pair_logps(model, chunk)))
    return _in_order(parts)


def backward(
    model: nn.Module,
    batches: Sequence[PairBatch],
    loss_of: Callable[[PairLogps, Tensor], Tensor],
    precision: Precision = nullcontext,
    run: Backward = Tensor.backward,
) -> PairLogps:
    """Backward of `loss_of(log-probs, places)` of every chunk, summed; the log-probs met on the way, in order."""
    parts = []
    for places, chunk in chunks_of(model, PairBatch.cat(batches)):
        with precision():
            policy = pair_logps(model, chunk)
        run(loss_of(policy, places))
        parts.append((places, policy.detach()))
    return _in_order(parts)


def _in_order(parts: Sequence[tuple[Tensor, PairLogps]]) -> PairLogps:
    """The log-probs of all chunks, as the pairs stand."""
    joined = PairLogps.cat([logps for _, logps in parts])
    return joined[torch.argsort(torch.cat([places for places, _ in parts])).to(joined.chosen.device)]
