"""The cheapest engine: one gradient at a time, no bank, no anchor. Approximate.

A pair's gap to first order is rho * G_i . g/||g||, and the pair itself is part of g = mean G_j. Of the sum over j only
the own term is kept, gap_i ~ rho * ||G_i||^2 / (n * ||g||), with ||g|| from the steps before: both are known as soon as
the pair's own backward is done, so its weighted gradient can be added up at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from gapo.anchor.engine import Engine, Weigh, each_pair
from gapo.anchor.gap import margin_direction
from gapo.anchor.probe import Found, Geometry, GroupFinding, Probe
from gapo.anchor.two_pass import TwoPass
from gapo.errors import InputError
from gapo.model.logps import PairLogps
from gapo.model.perturb import global_norm, without_gradients
from gapo.model.policy import pair_logps
from gapo.pairs.collate import PairBatch

DECAY = 0.9  # of the running mean of ||g||


class Streaming(Engine):
    """Own share only; ||g|| is a running mean, measured once before the first step."""

    name = "streaming"
    takes_gradient = True

    norm: float | None = None

    def anchors(
        self, model: nn.Module, batches: Sequence[PairBatch], step: int = 0, weigh: Weigh | None = None
    ) -> Probe:
        if weigh is None:
            raise ValueError("streaming takes the step's gradient as it goes and must know how pairs are weighed")
        scope = self.scope(model)
        inside = {id(p) for p in scope}
        if self.norm is None:
            first = next(self.groups(batches))[1]
            self.norm = margin_direction(model, first, scope, self.precision, self.together)[0].norm
        trained = [p for p in model.parameters() if p.requires_grad]
        gradient = [torch.zeros_like(p) for p in trained]
        found: list[Found] = []
        geometry = []
        weights = 0.0
        with without_gradients(trained):
            for places, group in self.groups(batches):
                count = self.together.count(places.stop - places.start)
                alone, norms = [], []
                for i, pair in enumerate(each_pair(group)):
                    with self.precision():
                        policy = pair_logps(model, pair)
                    policy.margin.sum().backward()  # type: ignore[no-untyped-call]
                    norms.append(global_norm(p.grad for p in trained if p.grad is not None and id(p) in inside))
                    share = self.settings.radius * norms[-1] ** 2 / (count * self.norm) if self.norm > 0 else 0.0
                    policy = policy.detach()
                    anchor = policy.lowered(torch.tensor([share], dtype=torch.float64))
                    place = places.start + i
                    coefficient = float(weigh(slice(place, place + 1), policy, anchor))
                    weights += coefficient
                    for total, parameter in zip(gradient, trained, strict=True):
                        if parameter.grad is not None:
                            torch.add(total, parameter.grad, alpha=coefficient, out=total)
                            parameter.grad = None
                    alone.append((policy, anchor))
                found.append(_joined(alone, self.norm))
                lengths = torch.tensor(norms, dtype=torch.float64)
                geometry.append(_own_share(lengths, self.settings.radius, self.norm, count))
        for part in gradient:
            self.ranks.sum(part)
        inner = [part for part, p in zip(gradient, trained, strict=True) if id(p) in inside]
        self._learn(inner, self.ranks.sum_of(weights))
        return Probe.of(found, geometry=Geometry.cat(geometry), gradient=gradient)

    def _learn(self, gradient: Sequence[torch.Tensor], weights: float) -> None:
        """||sum c_i G_i|| / |sum c_i| stands for ||g||: the weights of a step are near each other."""
        measured = global_norm(gradient) / abs(weights) if weights else 0.0
        if measured > 0 and self.norm is not None:
            self.norm = DECAY * self.norm + (1 - DECAY) * measured if self.norm > 0 else measured

    def norms(self, model: nn.Module, batches: Sequence[PairBatch]) -> Probe:
        raise InputError("gradnorm scales by the mean over a step, which streaming never sees; use another engine")

    def directions(self, model: nn.Module, batches: Sequence[PairBatch]) -> Probe:
        return TwoPass(self.settings, self.precision, ranks=self.ranks).directions(model, batches)

    def state(self) -> dict[str, Any]:
        return {**super().state(), "norm": self.norm}

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state)
        self.norm = state.get("norm")


def _joined(alone: Sequence[tuple[PairLogps, PairLogps]], norm: float) -> Found:
    nothing = PairLogps.none()  # a rank may have no pair of a group
    policy = PairLogps.cat([policy for policy, _ in alone] or [nothing])
    return policy, PairLogps.cat([anchor for _, anchor in alone] or [nothing]), GroupFinding(norm)


def _own_share(norms: torch.Tensor, radius: float, norm: float, pairs: int) -> Geometry:
    unknown = torch.full_like(norms, float("nan"))
    own = radius * norms**2 / (pairs * norm) if norm > 0 else torch.zeros_like(norms)
    return Geometry(norms, unknown, own, unknown)
