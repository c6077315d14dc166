"""Numbers that are not finite stop a run, with the step and the pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gapo.errors import TrainingStopped
from gapo.model.logps import PairLogps
from gapo.model.ranks import ALONE, Ranks
from gapo.model.sharding import local


def bad_losses(loss: Tensor, policy: PairLogps, ids: Sequence[str]) -> list[str]:
    """Pairs of a micro-batch whose loss or log-probs are not finite."""
    good = (torch.isfinite(loss) & torch.isfinite(policy.chosen) & torch.isfinite(policy.rejected)).tolist()
    return [name for name, fine in zip(ids, good, strict=True) if not fine]


def check_losses(bad: Sequence[str], step: int, ranks: Ranks = ALONE) -> None:
    """Of a step's pairs, before its update. All ranks stop together: one alone would leave the others waiting."""
    if ranks.largest(len(bad)):
        bad = [name for own in ranks.gather_objects(list(bad)) for name in own]
        raise TrainingStopped(
            f"step {step}: the loss is not finite for {len(bad)} pairs ({', '.join(bad[:5])}); this step's update was "
            "not made; lower the learning rate, or look at these pairs"
        )


def check_gradient(norm: float, ids: Sequence[str], step: int) -> None:
    """The gradient of a step, before the update."""
    if not math.isfinite(norm):
        raise TrainingStopped(
            f"step {step}: the gradient is not finite (pairs {', '.join(ids[:5])} and others of the step); this step's "
            "update was not made; lower the learning rate"
        )


def check_weights(model: nn.Module, step: int, ranks: Ranks = ALONE) -> None:
    """The weights after the last update, which no later step would notice."""
    trained = (local(p.detach()) for p in model.parameters() if p.requires_grad)
    if ranks.largest(int(not all(bool(torch.isfinite(part).all()) for part in trained))):
        raise TrainingStopped(f"step {step}: the update made weights that are not finite; lower the learning rate")
