"""What an evaluation says about pairs: accuracy with an interval, margin, loss."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import logsigmoid

from gapo.model.logps import PairLogps
from gapo.objectives import Objective


def accuracy(gain: Tensor) -> float:
    """Share of pairs whose chosen response has the larger reward; a tie counts half."""
    return float(((gain > 0).double() + 0.5 * (gain == 0).double()).mean())


def preference_metrics(objective: Objective, policy: PairLogps, reference: PairLogps | None) -> dict[str, float]:
    """Metrics of one data set.

    The accuracy is that of the objective's own reward. Where the loss needs an anchor or the statistics of training
    steps, `loss` is the plain -log sigmoid(beta * M), since an evaluation moves no parameters.
    """
    gain = objective.reward.gain(policy, reference)
    if set(objective.needs) <= {"policy", "reference"}:
        needs = {"policy": policy} | ({"reference": reference} if "reference" in objective.needs else {})
        loss = objective(**needs).mean()
    else:
        loss = -logsigmoid(float(objective.settings.get("beta", 1.0)) * gain).mean()
    return {
        "loss": float(loss),
        "accuracy": accuracy(gain),
        "reward_margin": float(gain.mean()),
        "margin": float(policy.margin.mean()),
        "chosen_logp": float(policy.chosen_mean.mean()),
        "rejected_logp": float(policy.rejected_mean.mean()),
    }
