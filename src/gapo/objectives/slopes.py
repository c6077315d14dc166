"""What a step needs of a loss: its value and its slope in every log-prob, once for all objectives."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gapo.model.logps import PairLogps, PerPair
from gapo.objectives.registry import Objective


@dataclass(frozen=True)
class Slopes:
    """Per pair: the loss, its slopes in the two log-probs, and the pair's weight.

    The gradient of the mean loss is mean_i (chosen_i * grad Lw_i + rejected_i * grad Ll_i). The weight is minus the
    slope in the objective's own margin m, `-dl/dm = (dl/dLl - dl/dLw)/2` with m and L per token or in total alike:
    where the loss depends on the margin alone, the pair's gradient is minus weight times the margin's gradient.
    """

    loss: PerPair
    chosen: PerPair
    rejected: PerPair
    weight: PerPair

    def __getitem__(self, index: slice) -> Slopes:
        return Slopes(self.loss[index], self.chosen[index], self.rejected[index], self.weight[index])


def slopes(objective: Objective, policy: PairLogps, **needs: object) -> Slopes:
    """Evaluate the objective on these log-probs, apart from any model."""
    with torch.enable_grad():
        chosen = policy.chosen.detach().requires_grad_()
        rejected = policy.rejected.detach().requires_grad_()
        leaf = PairLogps(chosen, rejected, policy.chosen_tokens, policy.rejected_tokens)
        loss = objective(policy=leaf, **needs)
        if objective.coupled:  # one number for all: every pair carries it, and the mean over pairs gives it back
            loss = loss.expand(len(policy))
        by_chosen, by_rejected = torch.autograd.grad(loss.sum(), (chosen, rejected))
    if objective.reward.per_token:
        weight = (by_rejected * policy.rejected_tokens - by_chosen * policy.chosen_tokens) / 2
    else:
        weight = (by_rejected - by_chosen) / 2
    return Slopes(loss.detach(), by_chosen, by_rejected, weight)
