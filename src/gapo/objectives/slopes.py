"""What a step needs of a loss: its value and its slope in every log-prob, once for all objectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gapo.model.logps import PairLogps, PerPair
from gapo.objectives.registry import Moments, Objective


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

    def __getitem__(self, index: slice | Tensor) -> Slopes:
        return Slopes(self.loss[index], self.chosen[index], self.rejected[index], self.weight[index])

    @staticmethod
    def cat(parts: Sequence[Slopes]) -> Slopes:
        return Slopes(
            torch.cat([part.loss for part in parts]),
            torch.cat([part.chosen for part in parts]),
            torch.cat([part.rejected for part in parts]),
            torch.cat([part.weight for part in parts]),
        )


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


def depends_on_margin_alone(objective: Objective) -> bool:
    """Whether the loss moves with log-probs only through the margin per token: dl/da_w = -dl/da_l, tried on a few.

    Then the gradient of the step is a sum of margin gradients.
    """
    if objective.coupled or not objective.reward.per_token:
        return False
    draw = torch.Generator().manual_seed(0)

    def logps() -> PairLogps:
        tokens = torch.randint(1, 9, (2, 16), generator=draw)
        values = -tokens * torch.rand(2, 16, generator=draw, dtype=torch.float64)
        return PairLogps(values[0], values[1], tokens[0], tokens[1])

    policy = logps()
    given = {"reference": logps(), "kl": torch.tensor(0.1), "moments": Moments(0.1, 0.2)}
    given["anchor"] = replace(logps(), chosen_tokens=policy.chosen_tokens, rejected_tokens=policy.rejected_tokens)
    given |= {
        name: torch.rand(16, generator=draw, dtype=torch.float64) for name in ("gradient_norm", "length_term", "wrong")
    }
    found = slopes(objective, policy, **{name: given[name] for name in objective.needs if name != "policy"})
    return torch.allclose(found.chosen * policy.chosen_tokens, -found.rejected * policy.rejected_tokens)
