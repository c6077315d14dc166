"""What the controls put in the gap's place, with the mean the gap would have."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gapo.model.logps import PairLogps, PerPair
from gapo.model.ranks import ALONE, Ranks


def length_terms(policy: PairLogps) -> PerPair:
    """1/|y_w| + 1/|y_l|."""
    chosen, rejected = (tokens.to(policy.chosen) for tokens in (policy.chosen_tokens, policy.rejected_tokens))
    return 1 / chosen + 1 / rejected


def scaled_to_gap(values: Tensor, direction_norm: float, radius: float, ranks: Ranks = ALONE) -> Tensor:
    """The values over their mean on all ranks, times rho * ||g||: the mean gap to first order. 0 without a mean."""
    mean = ranks.mean(values)
    if not (math.isfinite(direction_norm) and math.isfinite(mean) and mean > 0):
        return torch.zeros_like(values)
    return values * (radius * direction_norm / mean)
