"""Invented gradients whose wrong labels are known, and how well these are found: what docs/consensus.md shows.

A gradient has a common part of some strength, and noise in many more directions. All that is made of them (alignments,
mixtures, probabilities) is the code that training uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from gapo.consensus.judging import judged
from gapo.consensus.mixture import Mixture, Numbers, fit, fit_with_interval
from gapo.diagnostics.ranking import area_under_roc

PAIRS, RATE, SEED = 400, 0.2, 0
DIRECTIONS = 512  # of noise: an alignment by chance is about 1/sqrt(512) = 0.04
STRENGTH, SPREAD = 0.09, 0.05  # of the common part, beside noise of length 1
COUNTS = (16, 32, 64, 128, 256, 512, 1024)
RATES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.45)
WORLDS = 8  # drawn for each place of a curve
RANDOM, RULE = "at random", "by one rule"


@dataclass(frozen=True)
class World:
    """Gradients of invented pairs as their labels have them, and which labels are wrong."""

    gradients: Numbers
    wrong: np.ndarray

    @property
    def alignment(self) -> Numbers:
        return judged(torch.from_numpy(self.gradients), torch.arange(len(self.gradients))).alignment.numpy()

    @property
    def area(self) -> float:
        """How well a low alignment finds the wrong labels."""
        return float(area_under_roc(-self.alignment, self.wrong))

    @property
    def wrong_left(self) -> float:
        """The share of wrong labels once those that are likelier wrong than right are turned."""
        a = self.alignment
        return float(np.mean(self.wrong ^ (fit(a).wrong(a) > 0.5)))


def world(pairs: int = PAIRS, rate: float = RATE, seed: int = SEED, flips: str = RANDOM) -> World:
    """Quality is what all pairs have in common; the longer response is the better one in half of them.

    Flips by one rule hit pairs whose longer response is the better one, as an annotator would who likes it short.
    """
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(pairs, DIRECTIONS)) / np.sqrt(DIRECTIONS)
    longer = rng.permutation(np.arange(pairs) % 2 == 0)
    gradients = noise + _axis(0) * rng.normal(STRENGTH, SPREAD, (pairs, 1))
    gradients += _axis(1) * np.where(longer, STRENGTH, -STRENGTH)[:, None]
    wrong = np.zeros(pairs, dtype=bool)
    may = np.flatnonzero(longer) if flips == RULE else np.arange(pairs)
    wrong[rng.choice(may, round(rate * pairs), replace=False)] = True
    return World(np.where(wrong[:, None], -gradients, gradients), wrong)


@dataclass(frozen=True)
class Found:
    """What the pictures show."""

    plane: World  # two directions, few pairs
    many: World
    mixture: Mixture
    by_count: dict[float, Numbers]  # rate -> [counts, worlds]: areas under ROC
    by_rate: dict[str, Numbers]  # kind of flips -> [rates, worlds]: wrong labels left


def found(worlds: int = WORLDS) -> Found:
    """Compute it all; each place of a curve is seen in so many worlds."""
    many, seeds = world(), range(worlds)
    return Found(
        plane(),
        many,
        fit_with_interval(many.alignment),
        {r: np.array([[world(n, r, k).area for k in seeds] for n in COUNTS]) for r in (0.2, 0.4)},
        {f: np.array([[world(PAIRS, r, k, f).wrong_left for k in seeds] for r in RATES]) for f in (RANDOM, RULE)},
    )


def plane(pairs: int = 15, wrong: Sequence[int] = (3, 8, 12), seed: int = 4) -> World:
    """Arrows that can be drawn: two directions, so far more in common than pairs of a model have."""
    rng = np.random.default_rng(seed)
    angle, length = rng.normal(0.6, 0.75, pairs), rng.uniform(0.5, 1.0, pairs)
    gradients = length[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    marks = np.isin(np.arange(pairs), list(wrong))
    return World(np.where(marks[:, None], -gradients, gradients), marks)


def _axis(place: int) -> Numbers:
    """Common parts lie across all buckets, as sketches have them: evening buckets must not take one for large."""
    rng = np.random.default_rng([7, place])
    return np.asarray(rng.choice([-1.0, 1.0], DIRECTIONS) / np.sqrt(DIRECTIONS))
