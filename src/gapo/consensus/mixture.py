"""From alignments to probabilities: a symmetric mixture with one unknown rate, fitted by EM.

Flipping a pair negates its margin, hence its gradient, hence its alignment a with the others. If right labels have
alignments of density f(a), wrong ones have f(-a), and all of them together

    (1 - rate) * f(a) + rate * f(-a),    f(a) = sum over levels k of share_k * t((a - level_k) / width) / width

What f looks like decides the rate, so three shapes are tried, and the likeliest one is kept for its parameters:

    normal     one level, t the normal density
    heavy      one level, t Student's with 4 degrees of freedom: far-off pairs pull less
    strengths  levels from 0 upwards, shares free: some pairs say much about the preference, others nothing at all
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

Numbers = NDArray[np.float64]
SHAPES = {"normal": (1, np.inf), "heavy": (1, 4.0), "strengths": (8, np.inf)}  # levels, degrees of freedom
ROUNDS, CLOSE = 400, 1e-7  # of EM; nats a pair by which a round must gain
RATES = np.linspace(0.0, 0.5, 51)
CHI_SQUARE_95 = 3.841458820694124  # one parameter
NARROW = 1e-6  # of the largest alignment: no width is less


@dataclass(frozen=True)
class Mixture:
    """A fitted mixture; `low` and `high` bound the rate by the profile of the likelihood, 95 %."""

    shape: str
    rate: float
    levels: tuple[float, ...]
    shares: tuple[float, ...]
    width: float
    log_likelihood: float = float("nan")
    pairs: int = 0
    low: float = 0.0
    high: float = 0.5

    @staticmethod
    def of(kept: Mapping[str, Any]) -> Mixture:
        """From what JSON has kept of one."""
        return Mixture(**{**kept, "levels": tuple(kept["levels"]), "shares": tuple(kept["shares"])})

    @property
    def merit(self) -> float:
        """Akaike's: the log-likelihood less its parameters: rate, width, and a level or all shares but one."""
        return self.log_likelihood - (2 + max(1, len(self.levels) - 1))

    @property
    def separation(self) -> float:
        """How far right and wrong labels lie apart, in widths; below 1 few single labels can be told."""
        mean = float(np.dot(self.levels, self.shares))
        spread = np.sqrt(self.width**2 + np.dot(self.shares, np.square(self.levels)) - mean**2)
        return float(2 * mean / spread) if spread > 0 else 0.0

    def density(self, alignments: Numbers) -> Numbers:
        """f: how right labels are spread."""
        return np.asarray(np.exp(_log_density(np.asarray(alignments), self)) @ np.array(self.shares))

    def wrong(self, alignments: Numbers) -> Numbers:
        """The probability that each label is wrong, given its alignment."""
        return np.asarray(_posterior(np.asarray(alignments, dtype=np.float64), self)[1].sum(1))


def fit(alignments: Numbers, shapes: Sequence[str] = tuple(SHAPES), start: Mixture | None = None) -> Mixture:
    """The best of the shapes, without an interval. `start`: a fit to go on from."""
    a = np.asarray(alignments, dtype=np.float64)
    return max((_climb(a, _begun(a, shape, start)) for shape in shapes), key=lambda mixture: mixture.merit)


def fit_with_interval(alignments: Numbers, shapes: Sequence[str] = tuple(SHAPES)) -> Mixture:
    """The same, and the rates whose best fit is no worse than chance allows: 2 * (top - height(rate)) <= 3.84."""
    a = np.asarray(alignments, dtype=np.float64)
    best = fit(a, shapes)
    held = {shape: _begun(a, shape, None) for shape in shapes}
    heights = []
    for rate in RATES:
        held = {shape: _climb(a, replace(mixture, rate=float(rate)), free=False) for shape, mixture in held.items()}
        heights.append(max(mixture.merit for mixture in held.values()))
    top = max(best.merit, *heights)
    inside = [*RATES[2 * (top - np.array(heights)) <= CHI_SQUARE_95], best.rate]
    return replace(best, low=float(min(inside)), high=float(max(inside)))


def _begun(a: Numbers, shape: str, start: Mixture | None) -> Mixture:
    if start is not None and start.shape == shape:
        return replace(start, rate=min(max(start.rate, 0.02), 0.48))
    count, _ = SHAPES[shape]
    size = np.abs(a) if len(a) else np.zeros(1)
    width = float(np.sqrt(np.mean(size**2)))
    if count == 1:
        return Mixture(shape, 0.25, (float(size.mean()),), (1.0,), width)
    levels = np.linspace(0.0, float(np.quantile(size, 0.99)), count)
    return Mixture(shape, 0.25, tuple(levels.tolist()), (1 / count,) * count, 0.7 * width)


def _climb(a: Numbers, mixture: Mixture, *, free: bool = True) -> Mixture:
    """EM from here to the top; the rate stays as it is unless it is free."""
    if not np.any(a):  # nothing is told apart
        return replace(mixture, levels=(0.0,) * len(mixture.levels), width=1.0, log_likelihood=0.0, pairs=len(a))
    height = -np.inf
    for _ in range(ROUNDS):
        right, turned, now = _posterior(a, mixture)
        gain, height = now - height, now
        if gain <= CLOSE * len(a):
            break
        mixture = _better(a, mixture, right, turned, free=free)
    return replace(mixture, log_likelihood=height, pairs=len(a))


def _posterior(a: Numbers, mixture: Mixture) -> tuple[Numbers, Numbers, float]:
    """`[pairs, levels]`: the probabilities of a right label of each level, and of a wrong one; the log-likelihood."""
    with np.errstate(divide="ignore"):
        shares = np.log(mixture.shares)
        right = shares + np.log1p(-mixture.rate) + _log_density(a, mixture)
        turned = shares + np.log(mixture.rate) + _log_density(-a, mixture)
    both = np.concatenate([right, turned], axis=1)
    height = logsumexp(both, axis=1, keepdims=True)
    both = np.exp(both - height)
    count = len(mixture.levels)
    return both[:, :count], both[:, count:], float(height.sum())


def _better(a: Numbers, mixture: Mixture, right: Numbers, turned: Numbers, *, free: bool) -> Mixture:
    """One round. Student's t is a normal whose precision is unknown for each pair; `_grip` is its expectation."""
    rate = min(float(turned.sum()) / len(a), 0.5) if free else mixture.rate
    shares = (right + turned).sum(0) / len(a)
    pull, push = right * _grip(a, mixture), turned * _grip(-a, mixture)
    levels = np.array(mixture.levels)
    if len(levels) == 1:
        levels = np.maximum(0.0, ((pull - push) * a[:, None]).sum(0) / (pull + push).sum(0))
    squares = pull * (a[:, None] - levels) ** 2 + push * (a[:, None] + levels) ** 2
    width = max(float(np.sqrt(squares.sum() / len(a))), NARROW * float(np.abs(a).max()))
    return replace(mixture, rate=rate, levels=tuple(levels.tolist()), shares=tuple(shares.tolist()), width=width)


def _grip(a: Numbers, mixture: Mixture) -> Numbers:
    nu = SHAPES[mixture.shape][1]
    z = (a[:, None] - np.array(mixture.levels)) / mixture.width
    return np.ones_like(z) if np.isinf(nu) else np.asarray((nu + 1) / (nu + z**2))


def _log_density(a: Numbers, mixture: Mixture) -> Numbers:
    nu = SHAPES[mixture.shape][1]
    z = (a[:, None] - np.array(mixture.levels)) / mixture.width
    if np.isinf(nu):
        return np.asarray(-0.5 * z**2 - np.log(mixture.width) - 0.5 * np.log(2 * np.pi))
    constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(nu * np.pi) - np.log(mixture.width)
    return np.asarray(constant - (nu + 1) / 2 * np.log1p(z**2 / nu))
