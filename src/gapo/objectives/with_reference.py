"""Losses that compare the policy with a frozen reference.

`D = (Lw - Rw) - (Ll - Rl)` is the gain of the total margin over the reference.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from gapo.model.logps import PairLogps, PerPair
from gapo.objectives.registry import Moments, objective

SMALLEST_SPREAD = 1e-5  # nats a token; fp32 log-probs of long responses agree to about 1e-6


def _total_gain(policy: PairLogps, reference: PairLogps) -> PerPair:
    return policy.total_margin - reference.total_margin


@objective(per_token=False, relative=True)
def dpo(policy: PairLogps, reference: PairLogps, *, beta: float = 0.1) -> PerPair:
    """Rafailov et al. 2023, eq. 7. At the reference every pair costs log 2."""
    return -logsigmoid(beta * _total_gain(policy, reference))


@objective(per_token=True, relative=True)
def ipo(policy: PairLogps, reference: PairLogps, *, tau: float = 0.1, summed: bool = False) -> PerPair:
    """Azar et al. 2024, eq. 17, on mean log-probs: (gain - 1/(2 tau))^2. `summed` takes the total ones instead."""
    gain = _total_gain(policy, reference) if summed else policy.margin - reference.margin
    return (gain - 1 / (2 * tau)) ** 2


@objective(per_token=False, relative=True)
def kto(
    policy: PairLogps,
    reference: PairLogps,
    kl: Tensor,
    *,
    beta: float = 0.1,
    lam_d: float = 1.0,
    lam_u: float = 1.0,
) -> PerPair:
    """Ethayarajh et al. 2024, eq. 8, with one desirable and one undesirable response a pair: the mean of the two."""
    desirable = lam_d * (1 - torch.sigmoid(beta * (policy.chosen - reference.chosen - kl)))
    undesirable = lam_u * (1 - torch.sigmoid(beta * (kl - (policy.rejected - reference.rejected))))
    return (desirable + undesirable) / 2


@objective(per_token=False, relative=True)
def rdpo(policy: PairLogps, reference: PairLogps, *, beta: float = 0.1, alpha: float = 0.05) -> PerPair:
    """Park et al. 2024: DPO with a length term. Plus, so that a longer winner gets a smaller push."""
    longer = (policy.chosen_tokens - policy.rejected_tokens).to(policy.chosen.dtype)  # int * float would be float32
    return -logsigmoid(beta * _total_gain(policy, reference) + alpha * longer)


@objective(per_token=False, relative=True)
def robust_dpo(policy: PairLogps, reference: PairLogps, *, beta: float = 0.1, e: float = 0.1) -> PerPair:
    """Chowdhury et al. 2024 (r-DPO): unbiased when a share e of the labels is flipped at random."""
    gain = beta * _total_gain(policy, reference)
    return (-(1 - e) * logsigmoid(gain) + e * logsigmoid(-gain)) / (1 - 2 * e)


@objective(per_token=False, relative=True)
def cdpo(policy: PairLogps, reference: PairLogps, *, beta: float = 0.1, e: float = 0.1) -> PerPair:
    """Mitchell 2023 (conservative DPO): cross-entropy with a label that is right with probability 1 - e."""
    gain = beta * _total_gain(policy, reference)
    return -(1 - e) * logsigmoid(gain) - e * logsigmoid(-gain)


@objective(per_token=False, relative=True, coupled=True)
def dr_dpo(policy: PairLogps, reference: PairLogps, *, beta: float = 0.1, b: float = 1.0) -> Tensor:
    """Wu et al. 2024 (Dr.DPO): -b log mean_i exp(-l_i / b) of the DPO losses, over the pairs of the whole step."""
    losses = -logsigmoid(beta * _total_gain(policy, reference))
    return -b * (torch.logsumexp(-losses / b, dim=0) - math.log(len(losses)))


@objective(per_token=True)
def alpha_dpo(
    policy: PairLogps,
    reference: PairLogps,
    moments: Moments,
    *,
    beta: float = 2.5,
    gamma: float = 0.375,
    alpha: float = 0.05,
) -> PerPair:
    """Wu et al. 2025: SimPO whose target margin grows with z, the z-score of the margin's gain over the reference.

    At the start policy and reference agree, the gain is rounding error, and its z-score would be noise of size 1: a
    spread below SMALLEST_SPREAD counts as none.
    """
    gain = (policy.margin - reference.margin).detach()
    z = (gain - moments.mean) / moments.std if moments.std > SMALLEST_SPREAD else torch.zeros_like(gain)
    return -logsigmoid(beta * (policy.margin - alpha * z) - gamma)
