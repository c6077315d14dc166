"""What the gap is made of: its expansion in the radius, against gaps that were measured.

Let u = g/||g||, g the gradient of the mean margin over a batch B, and theta~ = theta - rho*u. Along that line a margin
is a function of one number, and Taylor's formula says what it loses:

    Gamma_i = rho * s_i - rho^2/2 * kappa_i + rho^3/6 * tau_i - ...
    s_i = ||grad M_i|| * alpha_i,  alpha_i = cos(grad M_i, g),  kappa_i = u'H_i u,  tau_i = d^3 M_i along u

Proposition 2 of the paper is this up to rho^2. Proposition 1 is its mean over B, where s is ||g|| itself: no other unit
vector has a greater s, by Cauchy-Schwarz. The corollary puts the Hessian's greatest eigenvalue in kappa's place, and
for what is left a constant L with |tau| <= L on the way from theta to theta~:

    mean Gamma >= rho*||g|| - rho^2/2 * lambda_max(H_B) - rho^3/6 * L

The paper's L is a Lipschitz constant of H_B on a ball. Ours is the greatest |tau| met on the line alone: never greater,
so our bound is the easier one to break. At small radii the higher terms lie below float32's last digit: `sweep` and
`spectral_bound` ask for a float64 model (`gapo.model.double.double_copy`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from gapo.anchor.gap import Direction, margin_direction, parameters_in_scope
from gapo.diagnostics.second_order import hessian, mean_margin, precise, smooth
from gapo.diagnostics.spectrum import Spectrum, extreme_eigenvalues
from gapo.errors import InputError
from gapo.model.passes import chunks_of, forward
from gapo.model.perturb import displaced
from gapo.model.policy import pair_logps
from gapo.pairs.collate import PairBatch

Floats = NDArray[np.float64]
RADII = tuple(float(radius) for radius in np.geomspace(1e-3, 0.1, 9))


@dataclass(frozen=True)
class Expansion:
    """At theta, along u, for each pair."""

    grad_norm: Floats
    alignment: Floats
    curvature: Floats
    third: Floats
    direction_norm: float

    @property
    def slope(self) -> Floats:
        """s_i; their mean is ||g||."""
        return self.grad_norm * self.alignment

    def gap(self, radii: ArrayLike, order: int = 2) -> Floats:
        """`[radii, pairs]`: the gap as its first terms have it."""
        rho = np.asarray(radii, dtype=np.float64)[:, None]
        terms = (rho * self.slope, -(rho**2) / 2 * self.curvature, rho**3 / 6 * self.third)
        return np.add.reduce(terms[:order])


@dataclass(frozen=True)
class Sweep:
    """Gaps measured at several radii, beside the expansion at radius 0."""

    radii: Floats
    gaps: Floats  # [radii, pairs]
    expansion: Expansion

    def up_to(self, radius: float) -> Sweep:
        """The smaller radii alone, where the next term outweighs those after it."""
        near = self.radii <= radius
        return Sweep(self.radii[near], self.gaps[near], self.expansion)

    def residual(self, order: int = 2) -> Floats:
        """`[radii, pairs]`: what the first terms leave."""
        return self.gaps - self.expansion.gap(self.radii, order)

    def falls_as(self, order: int = 2) -> float:
        """The power of the radius that the residual's root mean square over pairs falls with; order + 1 in theory."""
        return power(self.radii, np.sqrt((self.residual(order) ** 2).mean(1)))

    def pairs_fall_as(self, order: int = 2) -> Floats:
        """The same for each pair; a pair whose next term happens to be small falls faster."""
        return np.array([power(self.radii, column) for column in np.abs(self.residual(order)).T])


@dataclass(frozen=True)
class Bound:
    """The corollary at several radii. `floor` <= `gap` <= `ceiling`, the latter by the same proof with lambda_min."""

    radii: Floats
    gap: Floats  # mean over pairs
    first: Floats  # rho*||g||
    floor: Floats
    ceiling: Floats
    curvature: float  # kappa of the mean margin: what the eigenvalues stand in for
    steepest_third: Floats  # L of each radius
    spectrum: Spectrum

    @property
    def holds(self) -> bool:
        return bool(((self.floor <= self.gap) & (self.gap <= self.ceiling)).all())

    @property
    def remainder(self) -> Floats:
        """mean Gamma - rho*||g|| + rho^2/2 * kappa, which is rho^3/6 * L in size at most."""
        return self.gap - self.first + self.radii**2 / 2 * self.curvature

    @property
    def cubic(self) -> Floats:
        """rho^3/6 * L."""
        return self.radii**3 / 6 * self.steepest_third


def power(radii: ArrayLike, values: ArrayLike) -> float:
    """The slope of log(values) over log(radii), by least squares."""
    return float(np.polyfit(np.log(radii), np.log(values), 1)[0])


def expand(model: nn.Module, batch: PairBatch, scope: str = "full") -> Expansion:
    """Each pair's terms along the batch's direction; one pair at a time, three derivatives deep."""
    direction = _direction(model, batch, scope)
    unit = _unit(direction)
    rows = []
    for i in range(len(batch)):
        with smooth(model):
            margin = pair_logps(model, batch.take(i)).margin[0]
        gradient_norm, (slope, *higher) = _derivatives(margin, direction.parameters, unit)
        rows.append((gradient_norm, slope / gradient_norm if gradient_norm > 0 else 0.0, *higher))
    norms, alignments, curvatures, thirds = np.array(rows).T
    return Expansion(norms, alignments, curvatures, thirds, direction.norm)


def measure_gaps(model: nn.Module, batch: PairBatch, radii: Sequence[float], scope: str = "full") -> Floats:
    """`[radii, pairs]`: the margins lost at the anchor of each radius, by the forwards that training makes."""
    direction = _direction(model, batch, scope)
    with precise(model):
        home = forward(model, [batch]).margin
        found = []
        for radius in radii:
            with displaced(direction.parameters, direction.gradient, -radius):
                found.append((home - forward(model, [batch]).margin).double().cpu().numpy())
    return np.array(found)


def sweep(model: nn.Module, batch: PairBatch, radii: Sequence[float] = RADII, scope: str = "full") -> Sweep:
    """The expansion at theta, and measured gaps to hold against it."""
    _refuse_single(model)
    gaps = measure_gaps(model, batch, radii, scope)
    return Sweep(np.array(radii, dtype=np.float64), gaps, expand(model, batch, scope))


def spectral_bound(
    model: nn.Module,
    batch: PairBatch,
    radii: Sequence[float] = RADII,
    scope: str = "full",
    *,
    gaps: Floats | None = None,
    spectrum: Spectrum | None = None,
) -> Bound:
    """The corollary against measured gaps, those of `measure_gaps` at rising radii.

    Lanczos finds an eigenvalue from inside the spectrum, so its residual is added on the outside.
    """
    _refuse_single(model)
    if list(radii) != sorted(radii):
        raise InputError("the radii of a bound must rise: each one's constant is the greatest so far on the line")
    direction = _direction(model, batch, scope)
    if gaps is None:
        gaps = measure_gaps(model, batch, radii, scope)
    if spectrum is None:
        spectrum = extreme_eigenvalues(hessian(model, batch, mean_margin(len(batch)), direction.parameters), top=1)
    met = [_of_mean(model, batch, direction, radius) for radius in (0.0, *radii)]  # each (s, kappa, tau)
    steepest = np.maximum.accumulate([abs(third) for _, _, third in met])[1:]
    rho = np.array(radii, dtype=np.float64)
    first, half, cubic = rho * direction.norm, rho**2 / 2, rho**3 / 6 * steepest
    return Bound(
        radii=rho,
        gap=gaps.mean(1),
        first=first,
        floor=first - half * (spectrum.lambda_max + spectrum.residual) - cubic,
        ceiling=first - half * (spectrum.lambda_min - spectrum.residual) + cubic,
        curvature=met[0][1],
        steepest_third=steepest,
        spectrum=spectrum,
    )


def _refuse_single(model: nn.Module) -> None:
    dtype = next(model.parameters()).dtype
    if dtype != torch.float64:
        raise InputError(f"the expansion is measured in float64 and the model is in {dtype}; give double_copy(model)")


def _direction(model: nn.Module, batch: PairBatch, scope: str) -> Direction:
    with precise(model):
        found, _ = margin_direction(model, [batch], parameters_in_scope(model, scope))
    if not (np.isfinite(found.norm) and found.norm > 0):
        raise InputError(f"the gradient of the mean margin has the length {found.norm}: there is no direction to go")
    return found


def _unit(direction: Direction) -> list[Tensor]:
    return [part / direction.norm for part in direction.gradient]


def _of_mean(model: nn.Module, batch: PairBatch, direction: Direction, radius: float) -> list[float]:
    """s, kappa and tau of the mean margin, at the anchor of this radius."""
    unit, total = _unit(direction), np.zeros(3)
    with displaced(direction.parameters, direction.gradient, -radius):
        for places, chunk in chunks_of(model, batch):
            with smooth(model):
                value = mean_margin(len(batch))(pair_logps(model, chunk), places)
            total += _derivatives(value, direction.parameters, unit)[1]
    return [float(x) for x in total]


def _derivatives(value: Tensor, parameters: Sequence[Tensor], unit: Sequence[Tensor]) -> tuple[float, list[float]]:
    """The length of the gradient, and three derivatives along u: each is the last one's gradient times u."""
    length, found = 0.0, []
    for order in (1, 2, 3):
        if not value.requires_grad:  # a polynomial of a lower degree
            found.append(0.0)
            continue
        slopes = torch.autograd.grad(
            value, parameters, create_graph=order < 3, allow_unused=True, materialize_grads=True
        )
        if order == 1:
            length = float(torch.stack([s.detach().norm() for s in slopes]).norm())
        value = torch.stack([(s * u).sum() for s, u in zip(slopes, unit, strict=True)]).sum()
        found.append(value.item())
    return length, found
