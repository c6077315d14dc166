"""How the bank is filled: one backward a pair, or many pairs in one where the model is small and its layers known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from gapo.anchor.bank import GradientBank
from gapo.model.logps import PairLogps
from gapo.model.passes import Precision, chunks_of
from gapo.model.per_pair import margin_gradients, obstacle
from gapo.model.perturb import without_gradients
from gapo.model.policy import pair_logps
from gapo.model.recompute import recomputes
from gapo.pairs.collate import PairBatch

ENTRIES_AT_ONCE = 2**26  # of gradients that stand beside the bank before they go into it: 256 MB in fp32


def pairs_at_once(model: nn.Module) -> int:
    """How many pairs one backward should serve: as many as fit, or 1 where gradients cannot be told apart.

    Also 1 with gradient checkpointing: several at once would keep every trained layer's input until backward, which is
    what checkpointing is there to avoid, and a reentrant one shows no layer's output to autograd before that.
    """
    if recomputes(model):
        return 1
    fit = ENTRIES_AT_ONCE // max(1, sum(p.numel() for p in model.parameters() if p.requires_grad))
    return fit if fit > 1 and obstacle(model) is None else 1


def fill(
    bank: GradientBank,
    model: nn.Module,
    batches: Sequence[PairBatch],
    precision: Precision = nullcontext,
    *,
    at_once: int,
) -> PairLogps:
    """Put the margin gradient of every pair into the bank, so many in one backward; the log-probs met on the way."""
    whole = PairBatch.cat(batches)
    bank.reserve(len(whole))
    if at_once > 1:
        found = list(_together(bank, model, whole, precision, at_once))
    else:
        found = list(_one_by_one(bank, model, whole, precision))
    if not found:  # another rank has this step's pairs
        return PairLogps.none(next(model.parameters()).dtype, next(model.parameters()).device)
    order = torch.cat([rows for rows, _ in found])
    joined = PairLogps.cat([policy for _, policy in found])
    return joined[torch.argsort(order).to(joined.chosen.device)]


def in_turn(
    bank: GradientBank, model: nn.Module, batches: Sequence[PairBatch], precision: Precision, *, at_once: int
) -> Iterator[tuple[Tensor, PairLogps]]:
    """The bank filled with some pairs after the others, so that it stays small: their places, and their log-probs."""
    for places, chunk in _chunks(model, PairBatch.cat(batches), at_once):
        yield places, fill(bank, model, [chunk], precision, at_once=at_once)


def _together(
    bank: GradientBank, model: nn.Module, whole: PairBatch, precision: Precision, at_once: int
) -> Iterator[tuple[Tensor, PairLogps]]:
    chunks = _chunks(model, whole, at_once)
    if len(chunks) == 1 and (kept := bank.rows()) is not None:  # written where they stay, without a copy
        with precision():
            policy, _ = margin_gradients(model, whole, kept)
        yield torch.arange(len(whole)), policy
        return
    for rows, chunk in chunks:
        with precision():
            policy, gradients = margin_gradients(model, chunk)
        bank.put(rows, gradients)
        yield rows, policy


def _one_by_one(
    bank: GradientBank, model: nn.Module, whole: PairBatch, precision: Precision
) -> Iterator[tuple[Tensor, PairLogps]]:
    with without_gradients(bank.parameters), bank.catching() as row:
        for rows, pair in _chunks(model, whole, 1):
            row[0] = int(rows)
            with precision():
                policy = pair_logps(model, pair)
            policy.margin.sum().backward()  # type: ignore[no-untyped-call]
            yield rows, policy.detach()


def _chunks(model: nn.Module, whole: PairBatch, pairs: int) -> list[tuple[Tensor, PairBatch]]:
    """Chunks of like length and at most so many pairs, with their rows in the bank."""
    rows = [some for places, _ in chunks_of(model, whole) for some in torch.split(places, pairs)]
    return [(some.cpu(), whole.of_pairs(some.tolist())) for some in rows]
