"""The paper on one page: direction, anchor, gap.

    g       = gradient of the mean margin over the anchor batch
    theta~  = theta - rho * g / ||g||
    gap_i   = M_i(theta) - M_i(theta~)

The loss that turns the gap into a weight is `gapo.objectives.anchored.gapo`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gapo.errors import InputError
from gapo.model.logps import PairLogps, PerPair
from gapo.model.passes import Precision, backward
from gapo.model.perturb import global_norm, without_gradients
from gapo.model.policy import causal_lm
from gapo.model.ranks import ALONE, Ranks
from gapo.model.sharding import is_sharded
from gapo.pairs.collate import PairBatch


@dataclass(frozen=True)
class Direction:
    """The gradient of a mean margin, one tensor for each parameter in scope."""

    parameters: tuple[nn.Parameter, ...]
    gradient: tuple[Tensor, ...]
    norm: float


def parameters_in_scope(model: nn.Module, scope: str = "full", key: str = "anchor.scope") -> tuple[nn.Parameter, ...]:
    """The trained parameters an anchor may move: `full`, `lm_head`, or those whose name matches a regex.

    `key` is what the user calls the scope.
    """
    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    if not trained:
        raise InputError("the model has no trainable parameter")
    if scope == "full":
        return tuple(p for _, p in trained)
    if scope == "lm_head":
        head = causal_lm(model).get_output_embeddings()  # type: ignore[operator]
        inside = {id(p) for p in head.parameters()}
        chosen = tuple(p for _, p in trained if id(p) in inside)
        if not chosen:
            raise InputError(f"{key} is 'lm_head' but the output layer is not trained; use 'full' or a regex")
        return chosen
    try:
        pattern = re.compile(scope)
    except re.error as error:
        raise InputError(f"{key} {scope!r} must be full, lm_head or a regular expression ({error})") from None
    chosen = tuple(p for name, p in trained if pattern.search(name))
    if not chosen:
        raise InputError(f"{key} {scope!r} matches no trained parameter; names look like {trained[0][0]!r}")
    return chosen


def margin_direction(
    model: nn.Module,
    batches: Sequence[PairBatch],
    scope: Sequence[nn.Parameter],
    precision: Precision = nullcontext,
    ranks: Ranks = ALONE,
) -> tuple[Direction, PairLogps]:
    """g = gradient of the mean margin over all pairs of the ranks' batches, and the log-probs met on the way.

    `.backward()` and not `autograd.grad`: gradient hooks of data-parallel wrappers see only the former.
    """
    pairs = ranks.count(sum(len(batch) for batch in batches))
    with without_gradients(tuple(model.parameters())):
        policy = backward(model, batches, lambda logps, _: logps.margin.sum() / pairs, precision)
        if not is_sharded(model):  # shards have been summed on the way
            ranks.sum_gradients(scope)
        gradient = tuple(p.grad if p.grad is not None else torch.zeros_like(p) for p in scope)
    return Direction(tuple(scope), gradient, global_norm(gradient)), policy


def self_check_ratio(gap: PerPair, norm: float, radius: float, ranks: Ranks = ALONE) -> float | None:
    """mean gap / (rho * ||g||): near 1 when the move is small and survives rounding. None without a direction."""
    expected = radius * norm
    return ranks.mean(gap) / expected if expected > 0 else None
