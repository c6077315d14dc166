"""The oracle: what the paper says, in the order it says it. Always possible, 7F where SimPO takes 3F."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gapo.anchor.engine import Engine, Weigh, each_pair, is_audit
from gapo.anchor.gap import margin_direction
from gapo.anchor.probe import Found, Geometry, GroupFinding, Probe
from gapo.model.passes import forward
from gapo.pairs.collate import PairBatch


class TwoPass(Engine):
    """Backward of the mean margin, forward at the anchor; the step's own pass follows."""

    name = "two_pass"

    def anchors(
        self, model: nn.Module, batches: Sequence[PairBatch], step: int = 0, weigh: Weigh | None = None
    ) -> Probe:
        return Probe.of([self._group(model, group, step) for _, group in self.groups(batches)])

    def _group(self, model: nn.Module, group: Sequence[PairBatch], step: int) -> Found:
        scope = self.scope(model)
        if self.settings.strategy == "random":
            policy = forward(model, group, self.precision)
            return self.at_anchor(model, group, policy, self.random_direction(scope, step), checked=False)
        if self.settings.strategy == "batch":
            direction, policy = margin_direction(model, group, scope, self.precision, self.together)
            return self.at_anchor(model, group, policy, direction, audit=is_audit(step))
        alone = []
        for pair in each_pair(group):
            direction, policy = margin_direction(model, [pair], scope, self.precision)
            alone.append(self.at_anchor(model, [pair], policy, direction, checked=False))  # all of them together are
        return self.pair_by_pair(alone)

    def norms(self, model: nn.Module, batches: Sequence[PairBatch]) -> Probe:
        """One backward a pair, and before them one of their mean for the dot products' sake."""
        scope = self.scope(model)
        found: list[Found] = []
        geometry = []
        for _, group in self.groups(batches):
            mean, policy = margin_direction(model, group, scope, self.precision, self.together)
            norms, dots = [], []
            for pair in each_pair(group):
                own, _ = margin_direction(model, [pair], scope, self.precision)
                norms.append(own.norm)
                dots.append(sum(_dot(one, other) for one, other in zip(own.gradient, mean.gradient, strict=True)))
            found.append((policy, policy, GroupFinding(mean.norm)))
            slopes = torch.tensor(dots, dtype=torch.float64)
            lengths = torch.tensor(norms, dtype=torch.float64)
            pairs = self.together.count(len(lengths))
            geometry.append(Geometry.of(lengths, slopes, mean.norm, self.settings.radius, pairs))
        return Probe.of(found, geometry=Geometry.cat(geometry))

    def directions(self, model: nn.Module, batches: Sequence[PairBatch]) -> Probe:
        found: list[Found] = []
        for _, group in self.groups(batches):
            direction, policy = margin_direction(model, group, self.scope(model), self.precision, self.together)
            found.append((policy, policy, GroupFinding(direction.norm)))
        return Probe.of(found)


def _dot(one: Tensor, other: Tensor) -> float:
    return float(one.flatten() @ other.flatten())
