"""The paper's expansions: Propositions 1 and 2, checked against measured gaps in float64."""

import numpy as np
import pytest
import torch

import literal
import tiny
from gapo.anchor.engines import AnchorSettings, probe
from gapo.pairs.collate import collate


@pytest.fixture(scope="module")
def expansion():
    """Gradients, the unit direction v and the curvatures v'(H_i)v of a few pairs."""
    model = tiny.llama(attention="eager")  # the fused kernel has no second derivative
    pairs = tiny.random_pairs(4)
    parameters = list(model.parameters())
    direction = literal.mean_margin_gradient(model, pairs)
    length = literal.norm(direction)
    v = [part / length for part in direction]
    slopes, curvatures, norms = [], [], []
    for pair in pairs:
        gradient = torch.autograd.grad(literal.margin(model, pair), parameters, create_graph=True)
        along = sum((g * u).sum() for g, u in zip(gradient, v, strict=True))
        hv = torch.autograd.grad(along, parameters)
        slopes.append(along.item())
        norms.append(literal.norm(gradient).item())
        curvatures.append(sum((h * u).sum() for h, u in zip(hv, v, strict=True)).item())
    return model, pairs, length.item(), np.array(slopes), np.array(curvatures), np.array(norms)


def measured(model, pairs, radius, strategy="batch"):
    settings = AnchorSettings(radius=radius, strategy=strategy)
    return probe(model, [collate(pairs, tiny.PAD)], settings).gap.numpy()


def test_gap_over_radius_tends_to_the_slope_along_the_direction(expansion):
    model, pairs, _, slopes, _, _ = expansion
    assert np.allclose(measured(model, pairs, 1e-6) / 1e-6, slopes, atol=1e-4)


def test_mean_gap_over_radius_tends_to_the_gradient_norm(expansion):
    model, pairs, length, *_ = expansion
    assert measured(model, pairs, 1e-6).mean() / 1e-6 == pytest.approx(length, rel=1e-4)
    assert probe(model, [collate(pairs, tiny.PAD)], AnchorSettings(radius=1e-6)).ratio == pytest.approx(1, abs=1e-4)


def test_own_gap_over_radius_tends_to_the_pairs_own_gradient_norm(expansion):
    model, pairs, *_, norms = expansion
    assert np.allclose(measured(model, pairs, 1e-6, "instance") / 1e-6, norms, rtol=1e-4)


def test_second_order_term_is_half_the_curvature_and_the_rest_falls_as_the_cube(expansion):
    model, pairs, _, slopes, curvatures, _ = expansion
    radii = np.array([4e-3, 2e-3, 1e-3, 5e-4])
    rest = []
    for radius in radii:
        wanted = radius * slopes - radius**2 / 2 * curvatures
        rest.append(np.abs(measured(model, pairs, radius) - wanted))
    order = [np.polyfit(np.log(radii), np.log(column), 1)[0] for column in np.array(rest).T]
    assert all(2.8 < slope < 3.2 for slope in order), order


def test_no_unit_direction_lowers_the_mean_margin_faster(expansion):
    """Cauchy-Schwarz: random directions never beat the batch direction to first order."""
    model, pairs, length, *_ = expansion
    for step in range(20):
        settings = AnchorSettings(radius=1e-6, strategy="random")
        gap = probe(model, [collate(pairs, tiny.PAD)], settings, step).gap.mean().item()
        assert abs(gap / 1e-6) <= length * (1 + 1e-6)
