"""Margins in a plane through theta: what the anchor's move looks like in two directions out of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from gapo.model.perturb import displaced, global_norm
from gapo.model.policy import pair_logps
from gapo.pairs.collate import PairBatch

Floats = NDArray[np.float64]
Vector = Sequence[Tensor]  # one tensor for each parameter


@dataclass(frozen=True)
class Plane:
    """theta + a * along + b * across; both axes have length 1 and are orthogonal."""

    parameters: tuple[nn.Parameter, ...]
    along: tuple[Tensor, ...]
    across: tuple[Tensor, ...]

    @staticmethod
    def through(parameters: Sequence[nn.Parameter], first: Vector, second: Vector) -> Plane:
        """The first axis is `first`, the second what of `second` is orthogonal to it."""
        along = _unit(first)
        overlap = sum(float((a * b).sum()) for a, b in zip(along, second, strict=True))
        rest = [b - overlap * a for a, b in zip(along, second, strict=True)]
        return Plane(tuple(parameters), along, _unit(rest))

    @torch.no_grad()
    def margins(self, model: nn.Module, batch: PairBatch, a: ArrayLike, b: ArrayLike) -> Floats:
        """`[b, a, pairs]`: each pair's margin at every point of the grid."""
        rows = []
        for up in np.asarray(b, dtype=float):
            rows.append([self._at(model, batch, float(right), float(up)) for right in np.asarray(a, dtype=float)])
        return np.array(rows)

    def _at(self, model: nn.Module, batch: PairBatch, a: float, b: float) -> Floats:
        way = [a * x + b * y for x, y in zip(self.along, self.across, strict=True)]
        with displaced(self.parameters, way, float(np.hypot(a, b))):
            return pair_logps(model, batch).margin.double().numpy()


def _unit(vector: Vector) -> tuple[Tensor, ...]:
    length = global_norm(vector)
    return tuple(part / length for part in vector)
