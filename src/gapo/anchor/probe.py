"""What one stress test of a step found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gapo.anchor.bank import GradientBank
from gapo.model.logps import PairLogps, PerPair


@dataclass(frozen=True)
class GroupFinding:
    """The anchor of one group of micro-batches: ||g||, the distance really moved, mean gap / (rho * ||g||)."""

    direction_norm: float
    moved: float = 0.0
    ratio: float | None = None


Found = tuple[PairLogps, PairLogps, GroupFinding]
"""Of one group: log-probs at theta, at the anchor, and what the anchor was like."""


@dataclass(frozen=True)
class Geometry:
    """How each pair's margin gradient lies to the mean gradient g of its group, whatever the anchors' strategy.

    With batch-wise anchors a pair's gap is, to first order, rho * G_i . g/||g||, and g = mean G_j: `gap_self` is the
    term of j = i, rho * ||G_i||^2 / (n * ||g||), and `gap_others` is the rest. NaN where it was not measured.
    """

    grad_norm: PerPair
    alignment: PerPair  # the cosine of G_i and g
    gap_self: PerPair
    gap_others: PerPair

    @staticmethod
    def of(norms: Tensor, dots: Tensor, direction_norm: float, radius: float, pairs: int | None = None) -> Geometry:
        """From ||G_i||, G_i . g and ||g|| of one group; `pairs` in g, if there are more than these."""
        pairs = len(norms) if pairs is None else pairs
        leads = math.isfinite(direction_norm) and direction_norm > 0  # else there is no anchor, and every gap is 0
        own = radius * norms**2 / (pairs * direction_norm) if leads else torch.zeros_like(norms)
        slope = radius * dots / direction_norm if leads else torch.zeros_like(norms)
        return Geometry(norms, dots / (norms * direction_norm), own, slope - own)

    @staticmethod
    def cat(parts: list[Geometry]) -> Geometry:
        columns = ([getattr(part, name) for part in parts] for name in GEOMETRY_COLUMNS)
        return Geometry(*(torch.cat(column) for column in columns))

    def __getitem__(self, index: slice) -> Geometry:
        return Geometry(*(getattr(self, name)[index] for name in GEOMETRY_COLUMNS))


GEOMETRY_COLUMNS = ("grad_norm", "alignment", "gap_self", "gap_others")


@dataclass(frozen=True)
class Probe:
    """Log-probs at theta and at the anchor, what each group's anchor was like, and what else the engine knows.

    With a `bank` the step's gradient is a sum over it; `gradient` is that of an engine that has already taken it.
    `estimate` stands beside an audited anchor: what the engine would have said without the audit.
    """

    policy: PairLogps
    anchor: PairLogps
    groups: tuple[GroupFinding, ...]
    bank: GradientBank | None = None
    geometry: Geometry | None = None
    gradient: list[Tensor] | None = None
    estimate: PairLogps | None = None

    @staticmethod
    def of(groups: Sequence[Found], **known: Any) -> Probe:
        """The findings of a step's groups, together."""
        policy, anchor = PairLogps.cat([group[0] for group in groups]), PairLogps.cat([group[1] for group in groups])
        return Probe(policy, anchor, tuple(group[2] for group in groups), **known)

    @property
    def summary(self) -> tuple[float | None, float, float]:
        """The self-check ratio, ||g||, and the distance moved."""
        return self.ratio, self.direction_norm, self.moved

    @property
    def gap(self) -> PerPair:
        return self.policy.margin - self.anchor.margin

    @property
    def direction_norm(self) -> float:
        return sum(group.direction_norm for group in self.groups) / len(self.groups)

    @property
    def moved(self) -> float:
        return sum(group.moved for group in self.groups) / len(self.groups)

    @property
    def ratio(self) -> float | None:
        """The self-check ratio, averaged over the groups that have one."""
        ratios = [group.ratio for group in self.groups if group.ratio is not None]
        return sum(ratios) / len(ratios) if ratios else None
