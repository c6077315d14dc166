"""Losses of the policy alone. `a` is the mean log-prob of a response, `M = a_w - a_l`."""

import math

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from gapo.model.logps import PairLogps, PerPair
from gapo.objectives.registry import objective

LOG_2 = math.log(2)


@objective(per_token=True)
def simpo(policy: PairLogps, *, beta: float = 2.5, gamma: float = 0.25) -> PerPair:
    """Meng et al. 2024, eq. 6: -log sigmoid(beta*M - gamma). Gamma is absolute; recipes often quote gamma/beta."""
    return -logsigmoid(beta * policy.margin - gamma)


@objective(per_token=False)
def cpo(policy: PairLogps, *, beta: float = 0.1, alpha: float = 1.0) -> PerPair:
    """Xu et al. 2024: -log sigmoid(beta*(Lw - Ll)) + alpha * NLL(y_w), the NLL per token of each response."""
    return -logsigmoid(beta * policy.total_margin) - alpha * policy.chosen_mean


@objective(per_token=True)
def orpo(policy: PairLogps, *, lam: float = 0.1) -> PerPair:
    """Hong et al. 2024, eq. 6: NLL(y_w) - lam * log sigmoid(log odds(y_w) - log odds(y_l)).

    The odds are those of the mean log-prob; the NLL is that of the response tokens.
    """
    log_odds_ratio = policy.margin - (log1mexp(policy.chosen_mean) - log1mexp(policy.rejected_mean))
    return -policy.chosen_mean - lam * logsigmoid(log_odds_ratio)


def log1mexp(x: Tensor) -> Tensor:
    """log(1 - exp(x)) for x < 0, accurate at both ends (Maechler 2012).

    A response that is certain has x = 0 and infinite odds; the next smaller number keeps them finite.
    """
    x = torch.clamp(x, max=-torch.finfo(x.dtype).tiny)
    # each branch sees only arguments it is accurate for, so neither can send a NaN through the other's gradient
    close = torch.log(-torch.expm1(torch.clamp(x, min=-LOG_2)))
    far = torch.log1p(-torch.exp(torch.clamp(x, max=-LOG_2)))
    return torch.where(x > -LOG_2, close, far)
