"""Directions in which labels agree lead the others; those in which they agree by chance alone stay behind.

What pairs differ in most (their length, their subject) need not be what was preferred, yet it is long in every sum. In
principal axes, pairs' coordinates x[i, k] with sizes l_k = sum of x[i, k]^2 over pairs,

    b_k = sum of x[i, k] over pairs / sqrt(l_k)

is how far labels agree in direction k. Turned at random they add noise of variance 4 * rate * (1 - rate) <= 1 to b_k;
what was preferred makes it larger. Which it is, is told over all directions together (empirical Bayes, by EM):

    b_k = c_k + noise,    c_k ~ sum over levels m of share_m * N(0, level_m * l_k / mean(l))
    kept_k = E[c_k | b_k] / b_k

and axis k is multiplied by sqrt(kept_k), so that it counts kept_k as much in a product of two pairs. Labels change
neither axes nor sizes. The less noise there is, the more of every direction is kept.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Numbers = NDArray[np.float64]
LEVELS = np.array([0.0, *(0.01 * 4.0**k for k in range(10))])
ROUNDS, CLOSE = 200, 1e-7  # of EM; nats a direction by which a round must gain
QUIET = 1e-6  # the least noise: a variance of 0 has no density
NEXT_TO_NOTHING = 1e-12  # of the longest axis: rounding


def in_axes(rows: Tensor) -> Tensor:
    """The same rows in their principal axes, in float64: lengths, products and sums are what they were."""
    rows = rows.double()
    if len(rows) > rows.shape[1]:
        _, axes = torch.linalg.eigh(rows.T @ rows)
        return rows @ axes
    sizes, parts = torch.linalg.eigh(rows @ rows.T)
    return parts * sizes.clamp_min(0).sqrt()


def agreeing(rows: Tensor, leaders: Tensor | None = None) -> Tensor:
    """These rows, which lie in their axes, each axis as long as labels agree in it.

    `leaders` marks the rows whose labels are asked, all if not given.
    """
    leading = rows if leaders is None else rows * leaders.to(rows)[:, None]
    sizes = leading.square().sum(0)
    some = sizes > NEXT_TO_NOTHING * sizes.max()
    if not some.any():
        return rows
    agreed = leading[:, some].sum(0) / sizes[some].sqrt()
    share = kept(sizes[some].numpy(), agreed.numpy())
    scale = torch.zeros_like(sizes)
    scale[some] = torch.from_numpy(share / share.max()).to(rows).sqrt()  # one factor for all axes changes nothing
    return rows * scale


def kept(sizes: Numbers, agreed: Numbers) -> Numbers:
    """E[c_k | b_k] / b_k under the fitted shares and noise."""
    share, noise = fitted(sizes, agreed)
    signal = _signal(sizes)
    return np.asarray((_posterior(signal, agreed**2, share, noise)[0] * signal / (noise + signal)).sum(1))


def fitted(sizes: Numbers, agreed: Numbers) -> tuple[Numbers, float]:
    """The likeliest shares of the levels, and the noise."""
    signal, squares = _signal(sizes), agreed**2
    share, noise, height = np.full(len(LEVELS), 1 / len(LEVELS)), 1.0, -np.inf
    for _ in range(ROUNDS):
        each, now = _posterior(signal, squares, share, noise)
        gain, height = now - height, now
        if gain <= CLOSE * len(agreed):
            break
        part = noise / (noise + signal)  # of b_k that is noise; E[noise_k^2] = part^2 * b_k^2 + part * signal
        share = each.mean(0)
        noise = float(np.clip((each * (part**2 * squares[:, None] + part * signal)).sum(1).mean(), QUIET, 1.0))
    return share, noise


def _signal(sizes: Numbers) -> Numbers:
    return np.asarray(LEVELS * (sizes / sizes.mean())[:, None])


def _posterior(signal: Numbers, squares: Numbers, share: Numbers, noise: float) -> tuple[Numbers, float]:
    """`[directions, levels]`: the probability of each level; and the log-likelihood, but for a constant."""
    size = noise + signal
    with np.errstate(divide="ignore"):
        height = np.log(share) - 0.5 * (np.log(size) + squares[:, None] / size)
    top = height.max(1, keepdims=True)
    each = np.exp(height - top)
    total = each.sum(1, keepdims=True)
    return each / total, float((top + np.log(total)).sum())
