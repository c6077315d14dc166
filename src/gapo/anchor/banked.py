"""Engines that keep every pair's gradient: `bank` (exact, 4F) and `first_order` (no anchor forward, 3F)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import torch
from torch import Tensor, nn

from gapo.anchor.bank import GradientBank
from gapo.anchor.engine import Engine, Weigh, each_pair, is_audit
from gapo.anchor.fill import fill, pairs_at_once
from gapo.anchor.gap import Direction
from gapo.anchor.probe import Found, Geometry, GroupFinding, Probe
from gapo.anchor.settings import AnchorSettings
from gapo.model.logps import PairLogps
from gapo.model.passes import Precision
from gapo.model.perturb import global_norm
from gapo.model.ranks import ALONE, Ranks
from gapo.pairs.collate import PairBatch


class Bank(Engine):
    """Gradients of all pairs first, one forward at the anchor, and the step's gradient is a sum."""

    name = "bank"
    takes_gradient = True

    def __init__(
        self,
        settings: AnchorSettings,
        precision: Precision = nullcontext,
        *,
        mixed: bool = False,
        ranks: Ranks = ALONE,
        dtype: torch.dtype | None = None,
    ) -> None:
        """`dtype` of the bank; None is each parameter's own."""
        super().__init__(settings, precision, mixed=mixed, ranks=ranks)
        self.dtype = dtype
        self._kept: GradientBank | None = None
        self._at_once = 1

    def anchors(
        self, model: nn.Module, batches: Sequence[PairBatch], step: int = 0, weigh: Weigh | None = None
    ) -> Probe:
        with self._filled(model, batches) as (bank, policy):
            found, geometry = [], []
            for places, group in self.groups(batches):
                mean, own = self._mean(bank, places, self.scope(model))
                geometry.append(own)
                found.append(self._group(model, group, policy[places], bank, places, mean, step))
            return Probe.of(found, bank=bank, geometry=Geometry.cat(geometry))

    def norms(self, model: nn.Module, batches: Sequence[PairBatch]) -> Probe:
        with self._filled(model, batches) as (bank, policy):
            found: list[Found] = []
            geometry = []
            for places, _ in self.groups(batches):
                mean, own = self._mean(bank, places, self.scope(model))
                geometry.append(own)
                found.append((policy[places], policy[places], GroupFinding(mean.norm)))
            return Probe.of(found, bank=bank, geometry=Geometry.cat(geometry))

    directions = norms

    def reserve(self, model: nn.Module, pairs: int) -> None:
        self._bank_of(model).reserve(pairs, touch=True)

    def release(self) -> None:
        if self._kept is not None:
            self._kept.release()

    @contextmanager
    def _filled(self, model: nn.Module, batches: Sequence[PairBatch]) -> Iterator[tuple[GradientBank, PairLogps]]:
        """The bank of this step, and the log-probs met on the way. After an error its memory is free."""
        bank = self._bank_of(model)
        try:
            yield bank, fill(bank, model, batches, self.precision, at_once=self._at_once)
        except BaseException:
            self.release()
            raise

    def _bank_of(self, model: nn.Module) -> GradientBank:
        trained = tuple(p for p in model.parameters() if p.requires_grad)
        if self._kept is None or tuple(map(id, self._kept.parameters)) != tuple(map(id, trained)):
            self._kept, self._at_once = GradientBank(trained, self.dtype), pairs_at_once(model)
        return self._kept

    def _mean(self, bank: GradientBank, places: slice, scope: Sequence[nn.Parameter]) -> tuple[Direction, Geometry]:
        sums = bank.sums(places, scope, self.together)
        pairs = self.together.count(len(sums.norms))
        geometry = Geometry.of(sums.norms, sums.dots, sums.norm, self.settings.radius, pairs)
        return Direction(tuple(scope), sums.gradient, sums.norm), geometry

    def _group(
        self,
        model: nn.Module,
        group: Sequence[PairBatch],
        policy: PairLogps,
        bank: GradientBank,
        places: slice,
        mean: Direction,
        step: int,
    ) -> Found:
        scope = mean.parameters
        if self.settings.strategy == "random":
            return self.at_anchor(model, group, policy, self.random_direction(scope, step), checked=False)
        if self.settings.strategy == "batch":
            return self.at_anchor(model, group, policy, mean, audit=is_audit(step))
        alone = []
        for i, pair in enumerate(each_pair(group)):
            gradient = bank.own(places.start + i, scope)
            direction = Direction(scope, gradient, global_norm(gradient))
            alone.append(self.at_anchor(model, [pair], policy[i : i + 1], direction, checked=False))
        return self.pair_by_pair(alone)


class FirstOrder(Bank):
    """gap_i = rho * G_i . g/||g||, without going to the anchor. One step in 50 is exact, and compared."""

    name = "first_order"

    def anchors(
        self, model: nn.Module, batches: Sequence[PairBatch], step: int = 0, weigh: Weigh | None = None
    ) -> Probe:
        audit = is_audit(step)
        found = super().anchors(model, batches, step) if audit else self.norms(model, batches)
        gaps = [self._gaps(model, found, places, step) for places, _ in self.groups(batches)]
        estimate = found.policy.lowered(torch.cat(gaps))
        return replace(found, estimate=estimate) if audit else replace(found, anchor=estimate)

    def _gaps(self, model: nn.Module, found: Probe, places: slice, step: int) -> Tensor:
        """rho * G_i . u, with u the unit vector of the strategy."""
        assert found.bank is not None
        assert found.geometry is not None
        geometry = found.geometry[places]
        if self.settings.strategy == "instance":
            return self.settings.radius * geometry.grad_norm
        if self.settings.strategy == "random":
            direction = self.random_direction(self.scope(model), step)
            slopes = found.bank.along(direction.gradient, places, direction.parameters)
            return self.settings.radius * slopes / direction.norm
        return geometry.gap_self + geometry.gap_others
