"""What the engines share: groups of micro-batches, the forward at an anchor, random directions, state."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gapo.anchor.forwards import AUDIT_EVERY, GapForwards
from gapo.anchor.gap import Direction, parameters_in_scope, self_check_ratio
from gapo.anchor.probe import Found, GroupFinding, Probe
from gapo.anchor.settings import AnchorSettings
from gapo.model.logps import PairLogps
from gapo.model.passes import Precision
from gapo.model.perturb import global_norm
from gapo.model.ranks import ALONE, Ranks
from gapo.model.sharding import shard_like
from gapo.pairs.collate import PairBatch

Weigh = Callable[[slice, PairLogps, PairLogps], Tensor]
"""Places in the step, log-probs there and at the anchor -> each pair's coefficient in the step's gradient."""


class Engine:
    """Micro-batches of one optimiser step in, a Probe out. What outlives a step is in `state()`, for checkpoints."""

    name: ClassVar[str]
    takes_gradient: ClassVar[bool] = False  # the step's gradient comes with the probe, no pass of its own follows

    def __init__(
        self,
        settings: AnchorSettings,
        precision: Precision = nullcontext,
        *,
        mixed: bool = False,
        ranks: Ranks = ALONE,
    ) -> None:
        """`ranks` share the step; they share its directions too, unless each is to have its own."""
        self.settings = settings
        self.precision = precision
        self.ranks = ranks
        self.together = ranks if settings.direction == "global" else ALONE
        self.forwards = GapForwards(precision, mixed, ranks=ranks)

    def anchors(
        self, model: nn.Module, batches: Sequence[PairBatch], step: int = 0, weigh: Weigh | None = None
    ) -> Probe:
        """Stress-test the pairs of a step; every `settings.batches` micro-batches share an anchor."""
        raise NotImplementedError

    def norms(self, model: nn.Module, batches: Sequence[PairBatch]) -> Probe:
        """No anchor, but the geometry: what gradnorm weighs by."""
        raise NotImplementedError

    def directions(self, model: nn.Module, batches: Sequence[PairBatch]) -> Probe:
        """No anchor, but each group's ||g||: what length_only is scaled by."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        return {"safe": self.forwards.safe}

    def load_state(self, state: dict[str, Any]) -> None:
        self.forwards.safe = bool(state.get("safe", False))

    def reserve(self, model: nn.Module, pairs: int) -> None:
        """Take the memory a step of so many pairs will need, now and not in the middle of it."""

    def release(self) -> None:
        """Give back memory kept between steps."""

    def scope(self, model: nn.Module) -> tuple[nn.Parameter, ...]:
        return parameters_in_scope(model, self.settings.scope)

    def groups(self, batches: Sequence[PairBatch]) -> Iterator[tuple[slice, Sequence[PairBatch]]]:
        """The places of each group's pairs in the step, and its micro-batches."""
        start = 0
        for first in range(0, len(batches), self.settings.batches):
            group = batches[first : first + self.settings.batches]
            end = start + sum(len(batch) for batch in group)
            yield slice(start, end), group
            start = end

    def at_anchor(
        self,
        model: nn.Module,
        batches: Sequence[PairBatch],
        policy: PairLogps,
        direction: Direction,
        *,
        audit: bool = False,
        checked: bool = True,
    ) -> Found:
        """Forward at one anchor; the direction's memory is used up. `checked`: its slope in the margin is known."""
        nowhere = not (math.isfinite(direction.norm) and direction.norm > 0)
        if audit and self.forwards.mixed:  # ranks judge together, or none does: each may have its own direction
            audit = not self.ranks.largest(int(nowhere))
        if nowhere:  # no direction, no stress: the gap is 0
            return policy, policy, GroupFinding(direction.norm)
        radius = self.settings.radius
        home, anchor, moved = self.forwards(model, batches, policy, direction, radius, audit=audit)
        gap = home.margin - anchor.margin
        ratio = self_check_ratio(gap, direction.norm, radius, self.together) if checked else None
        return home, anchor, GroupFinding(direction.norm, moved, ratio)

    def pair_by_pair(self, alone: Sequence[Found]) -> Found:
        """The findings of pairs that each had an anchor of their own, as those of a group."""
        nothing = PairLogps.none()  # a rank may have no pair of a group
        policy, anchor = (PairLogps.cat([found[k] for found in alone] or [nothing]) for k in (0, 1))  # type: ignore[misc]
        count = max(1, self.together.count(len(alone)))
        norm = self.together.sum_of(sum(found[2].direction_norm for found in alone)) / count
        moved = self.together.sum_of(sum(found[2].moved for found in alone)) / count
        ratio = self_check_ratio(policy.margin - anchor.margin, norm, self.settings.radius, self.together)
        return policy, anchor, GroupFinding(norm, moved, ratio)

    def random_direction(self, scope: Sequence[nn.Parameter], step: int) -> Direction:
        """The control: one random direction, new at each step, the same on every machine and rank."""
        generator = torch.Generator().manual_seed(self.settings.seed * 1_000_003 + step)
        gradient = tuple(
            shard_like(torch.randn(p.shape, generator=generator, dtype=torch.float32).to(p.device, p.dtype), p)
            for p in scope
        )
        return Direction(tuple(scope), gradient, global_norm(gradient))


def each_pair(batches: Sequence[PairBatch]) -> Iterator[PairBatch]:
    """Every pair as a batch of its own."""
    for batch in batches:
        for i in range(len(batch)):
            yield batch.take(i)


def is_audit(step: int) -> bool:
    """Steps count from 1: the first, and one in so many, are compared with the exact way."""
    return step % AUDIT_EVERY == 1
