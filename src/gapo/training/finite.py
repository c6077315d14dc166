"""Numbers that are not finite stop a run, with the step and the pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gapo.errors import TrainingStopped
from gapo.model.logps import PairLogps


def check_losses(loss: Tensor, policy: PairLogps, ids: Sequence[str], step: int) -> None:
    """Losses and log-probs of a micro-batch, before its backward."""
    good = (torch.isfinite(loss) & torch.isfinite(policy.chosen) & torch.isfinite(policy.rejected)).tolist()
    bad = [name for name, fine in zip(ids, good, strict=True) if not fine]
    if bad:
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


def check_weights(model: nn.Module, step: int) -> None:
    """The weights after the last update, which no later step would notice."""
    if not all(bool(torch.isfinite(p).all()) for p in model.parameters() if p.requires_grad):
        raise TrainingStopped(f"step {step}: the update made weights that are not finite; lower the learning rate")
