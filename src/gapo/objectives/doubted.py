"""Ours, not the paper's: losses that know how likely each label is to be wrong.

With p the probability that a label is wrong a pair counts 1 - 2p: nothing at 1/2, and turned round above it, since the
other label is then the likelier one. Without `correct` it counts 1 - p: dropped, never turned.
"""

from torch.nn.functional import logsigmoid

from gapo.model.logps import PairLogps, PerPair
from gapo.objectives.registry import objective


@objective(per_token=True)
def consensus(
    policy: PairLogps, wrong: PerPair, *, beta: float = 2.5, gamma: float = 0.25, correct: bool = True
) -> PerPair:
    """|1 - 2p| times SimPO's loss of the likelier label: -log sigmoid(beta * sign(1 - 2p) * M - gamma)."""
    return _trusted(policy.margin, wrong, beta, gamma, correct)


@objective(per_token=False, relative=True)
def consensus_dpo(
    policy: PairLogps, reference: PairLogps, wrong: PerPair, *, beta: float = 0.1, correct: bool = True
) -> PerPair:
    """The same with DPO's loss, whose margin is total and above the reference."""
    return _trusted(policy.total_margin - reference.total_margin, wrong, beta, 0.0, correct)


@objective(per_token=True)
def consensus_gapo(
    policy: PairLogps, anchor: PairLogps, wrong: PerPair, *, beta: float = 2.5, gamma: float = 0.1, correct: bool = True
) -> PerPair:
    """The same with GAPO's gap in the margin's place: a pair counts less for a wrong label, and for a large gap."""
    return _trusted(policy.margin - anchor.margin.detach(), wrong, beta, gamma, correct)


def _trusted(margin: PerPair, wrong: PerPair, beta: float, gamma: float, correct: bool) -> PerPair:
    wrong = wrong.to(margin)
    trust = 1 - 2 * wrong if correct else 1 - wrong
    return trust.abs() * -logsigmoid(beta * trust.sign() * margin - gamma)
