"""Ways to the anchor of a group of batches, one interface: batches in, what the objective needs out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gapo.anchor.gap import (
    Direction,
    anchor_logps,
    margin_direction,
    parameters_in_scope,
    self_check_ratio,
)
from gapo.errors import InputError, did_you_mean
from gapo.model.logps import PairLogps, PerPair
from gapo.model.perturb import global_norm
from gapo.model.policy import pair_logps
from gapo.pairs.collate import PairBatch


@dataclass(frozen=True)
class AnchorSettings:
    """rho; how many micro-batches share an anchor; which parameters move; along whose direction; by which engine."""

    radius: float = 0.05
    batches: int = 8
    scope: str = "full"
    strategy: str = "batch"
    engine: str = "two_pass"
    seed: int = 0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.radius) and self.radius > 0):
            raise InputError(f"anchor.radius must be a number greater than 0, not {self.radius}")
        if self.batches < 1:
            raise InputError(f"anchor.batches must be at least 1, not {self.batches}")
        for key, value, known in (("strategy", self.strategy, STRATEGIES), ("engine", self.engine, ENGINES)):
            if value not in known:
                raise InputError(f"unknown anchor.{key} {value!r}; {did_you_mean(value, known)}")


@dataclass(frozen=True)
class Probe:
    """What one stress test of a group of batches found."""

    policy: PairLogps
    anchor: PairLogps
    direction_norm: float
    moved: float
    ratio: float | None

    @property
    def gap(self) -> PerPair:
        return self.policy.margin - self.anchor.margin


Engine = Callable[[nn.Module, Sequence[PairBatch], AnchorSettings, int], Probe]


def two_pass(model: nn.Module, batches: Sequence[PairBatch], settings: AnchorSettings, step: int) -> Probe:
    """Exact: one forward and backward for the direction, one forward at the anchor; the step's own pass follows."""
    return STRATEGIES[settings.strategy](model, batches, settings, step)


ENGINES: dict[str, Engine] = {"two_pass": two_pass}


def probe(model: nn.Module, batches: Sequence[PairBatch], settings: AnchorSettings, step: int = 0) -> Probe:
    """Stress-test the pairs of these batches under one shared anchor."""
    return ENGINES[settings.engine](model, batches, settings, step)


def _shared(model: nn.Module, batches: Sequence[PairBatch], settings: AnchorSettings, step: int) -> Probe:
    """The paper's anchor: every pair along the direction of the group's mean margin."""
    direction, policy = margin_direction(model, batches, parameters_in_scope(model, settings.scope))
    return _at(model, batches, direction, PairLogps.cat(policy), settings.radius)


def _random(model: nn.Module, batches: Sequence[PairBatch], settings: AnchorSettings, step: int) -> Probe:
    """A control: every pair along one random direction, new at each step, the same on every machine."""
    scope = parameters_in_scope(model, settings.scope)
    generator = torch.Generator().manual_seed(settings.seed * 1_000_003 + step)
    gradient = tuple(
        torch.randn(p.shape, generator=generator, dtype=torch.float32).to(p.device, p.dtype) for p in scope
    )
    with torch.no_grad():
        policy = PairLogps.cat([pair_logps(model, batch) for batch in batches])
    found = _at(model, batches, Direction(scope, gradient, global_norm(gradient)), policy, settings.radius)
    return Probe(found.policy, found.anchor, found.direction_norm, found.moved, None)  # no slope to check against


def _own(model: nn.Module, batches: Sequence[PairBatch], settings: AnchorSettings, step: int) -> Probe:
    """Instance-wise: each pair along the direction of its own margin."""
    scope = parameters_in_scope(model, settings.scope)
    found = []
    for batch in batches:
        for i in range(len(batch)):
            pair = batch.take(i)
            direction, (alone,) = margin_direction(model, [pair], scope)
            found.append(_at(model, [pair], direction, alone, settings.radius))
    norm = sum(f.direction_norm for f in found) / len(found)
    policy, anchor = PairLogps.cat([f.policy for f in found]), PairLogps.cat([f.anchor for f in found])
    ratio = self_check_ratio(policy.margin - anchor.margin, norm, settings.radius)
    return Probe(policy, anchor, norm, sum(f.moved for f in found) / len(found), ratio)


def _at(
    model: nn.Module, batches: Sequence[PairBatch], direction: Direction, policy: PairLogps, radius: float
) -> Probe:
    if not (math.isfinite(direction.norm) and direction.norm > 0):  # no direction, no stress: the gap is 0
        return Probe(policy, policy, direction.norm, 0.0, None)
    parts, moved = anchor_logps(model, batches, direction, radius)
    anchor = PairLogps.cat(parts)
    ratio = self_check_ratio(policy.margin - anchor.margin, direction.norm, radius)
    return Probe(policy, anchor, direction.norm, moved, ratio)


STRATEGIES: dict[str, Engine] = {"batch": _shared, "instance": _own, "random": _random}


def gradient_norms(model: nn.Module, batches: Sequence[PairBatch], settings: AnchorSettings) -> tuple[Tensor, float]:
    """||grad M_i|| of every pair and ||g|| of their mean, one backward a pair."""
    scope = parameters_in_scope(model, settings.scope)
    total = [torch.zeros_like(p) for p in scope]
    norms = []
    for batch in batches:
        for i in range(len(batch)):
            direction, _ = margin_direction(model, [batch.take(i)], scope)
            norms.append(direction.norm)
            for running, part in zip(total, direction.gradient, strict=True):
                running += part
    return torch.tensor(norms), global_norm(total) / len(norms)


def length_terms(policy: PairLogps) -> PerPair:
    """1/|y_w| + 1/|y_l|."""
    chosen, rejected = policy.chosen_tokens.to(policy.chosen), policy.rejected_tokens.to(policy.rejected)
    return 1 / chosen + 1 / rejected


def scaled_to_gap(values: Tensor, direction_norm: float, radius: float) -> Tensor:
    """The values divided by their mean, times rho * ||g||: the mean gap to first order. 0 where there is none."""
    mean = float(values.cpu().double().mean())
    if not (math.isfinite(direction_norm) and math.isfinite(mean) and mean > 0):
        return torch.zeros_like(values)
    return values * (radius * direction_norm / mean)
