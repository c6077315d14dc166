"""GAPO, and its controls: the same weight form with something else in the gap's place."""

from torch.nn.functional import logsigmoid

from gapo.model.logps import PairLogps, PerPair
from gapo.objectives.registry import objective


@objective(per_token=True)
def gapo(policy: PairLogps, anchor: PairLogps, *, beta: float = 2.5, gamma: float = 0.1) -> PerPair:
    """-log sigmoid(beta*gap - gamma), gap = M(theta) - sg M(anchor). The weight is beta*sigmoid(gamma - beta*gap)."""
    gap = policy.margin - anchor.margin.detach()
    return -logsigmoid(beta * gap - gamma)


@objective(per_token=True)
def gradnorm(policy: PairLogps, gradient_norm: PerPair, *, beta: float = 2.5, gamma: float = 0.1) -> PerPair:
    """GradNorm-Reweight, the paper's control: the norm of the pair's margin gradient in the gap's place."""
    return _as_if_gap(policy, gradient_norm, beta, gamma)


@objective(per_token=True)
def length_only(policy: PairLogps, length_term: PerPair, *, beta: float = 2.5, gamma: float = 0.1) -> PerPair:
    """Our control: 1/|y_w| + 1/|y_l| in the gap's place, which needs no geometry at all."""
    return _as_if_gap(policy, length_term, beta, gamma)


def _as_if_gap(policy: PairLogps, value: PerPair, beta: float, gamma: float) -> PerPair:
    """The loss whose gap has this value and whose slope in the margin is -beta*sigmoid(gamma - beta*value)."""
    margin = policy.margin
    return -logsigmoid(beta * (margin - margin.detach() + value) - gamma)
