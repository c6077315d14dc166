"""The paper's expansions: Propositions 1 and 2, checked against measured gaps in float64."""

import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import literal
import tiny
from gapo.anchor.engines import AnchorSettings, probe
from gapo.diagnostics.expansion import expand, measure_gaps, power, spectral_bound, sweep
from gapo.errors import InputError
from gapo.model.double import kept_double
from gapo.pairs.collate import collate


@pytest.fixture(scope="module")
def expansion():
    """Gradients, the unit direction v and the curvatures v'(H_i)v of a few pairs."""
    model = tiny.llama(attention="eager")  # the fused kernel has no second derivative
    with kept_double():
        return by_hand(model)


def by_hand(model):
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


# ---- the diagnostics that studies use ----


RADII = tuple(np.geomspace(5e-4, 8e-3, 5))


@pytest.fixture(scope="module")
def batch(expansion):
    return collate(expansion[1], tiny.PAD)


@pytest.fixture(scope="module")
def swept(expansion, batch):
    return sweep(tiny.llama(), batch, RADII)  # sdpa, whose fast kernel measures and whose plain one differentiates


def test_the_terms_are_those_found_by_hand(expansion, swept):
    _, _, length, slopes, curvatures, norms = expansion
    found = swept.expansion
    assert found.direction_norm == pytest.approx(length, rel=1e-10)
    np.testing.assert_allclose(found.grad_norm, norms, rtol=1e-9)
    np.testing.assert_allclose(found.slope, slopes, atol=1e-9)
    np.testing.assert_allclose(found.alignment, slopes / norms, atol=1e-9)
    np.testing.assert_allclose(found.curvature, curvatures, atol=1e-8)


def test_the_mean_slope_is_the_length_of_the_direction(swept):
    assert swept.expansion.slope.mean() == pytest.approx(swept.expansion.direction_norm, rel=1e-10)


@pytest.mark.parametrize("make", [tiny.llama, tiny.gpt_neox, tiny.gemma2], ids=lambda make: make.__name__)
def test_the_third_derivative_is_the_change_of_the_curvature(make, batch):
    """Difference quotients of the curvature along u. (GPT-NeoX has layer norms, which torch differentiates twice.)"""
    pairs, step, around = tiny.random_pairs(4), 1e-4, []
    model = make()
    with kept_double(), sdpa_kernel(SDPBackend.MATH):
        direction = literal.mean_margin_gradient(model, pairs)
        v = [part / literal.norm(direction) for part in direction]
        for side in (step, -step):
            there = literal.at_anchor(model, direction, side)
            around.append([curvature_along(there, pair, v) for pair in pairs])
    change = (np.array(around[1]) - np.array(around[0])) / (2 * step)  # the anchor lies at -u
    np.testing.assert_allclose(expand(model, batch).third, change, rtol=1e-4, atol=1e-4 * abs(change).max())


def curvature_along(model, pair, v):
    parameters = list(model.parameters())
    slope = literal.margin(model, pair)
    for _ in range(2):
        gradient = torch.autograd.grad(slope, parameters, create_graph=True)
        slope = sum((g * u).sum() for g, u in zip(gradient, v, strict=True))
    return slope.item()


def test_measured_gaps_are_the_engines_own(expansion, batch, swept):
    model, pairs, *_ = expansion
    with kept_double():
        for radius, gaps in zip(RADII[:2], swept.gaps, strict=False):
            np.testing.assert_allclose(measured(model, pairs, radius), gaps, rtol=0, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_what_is_left_falls_with_the_next_power(swept, order):
    assert swept.falls_as(order) == pytest.approx(order + 1, abs=0.1)
    near = swept.up_to(3e-3)
    assert len(near.radii) == 3
    assert np.median(near.pairs_fall_as(order)) == pytest.approx(order + 1, abs=0.1)


def test_a_wrong_curvature_is_noticed(swept):
    """The slope of 3 is no accident: with a tenth off the second term it is nearer to 2."""
    off = swept.radii[:, None] ** 2 / 2 * swept.expansion.curvature / 10
    rest = np.sqrt(((swept.residual() + off) ** 2).mean(1))
    assert power(swept.radii[:3], rest[:3]) < 2.5


def test_only_the_head_moves_where_only_the_head_is_asked_for(expansion, batch):
    model = expansion[0]
    with kept_double():
        gaps = probe(model, [batch], AnchorSettings(radius=1e-3, scope="lm_head")).gap.numpy()
    np.testing.assert_allclose(expand(model, batch, "lm_head").gap([1e-3], order=3)[0], gaps, rtol=0, atol=1e-9)
    np.testing.assert_allclose(measure_gaps(model, batch, [1e-3], "lm_head")[0], gaps, rtol=0, atol=1e-12)


def test_the_spectral_bound_holds_and_its_parts_are_what_they_say(expansion, batch, swept):
    bound = spectral_bound(tiny.llama(), batch, RADII, gaps=swept.gaps)
    assert bound.holds
    assert bound.curvature == pytest.approx(swept.expansion.curvature.mean(), abs=1e-9)
    assert bound.spectrum.lambda_min < bound.curvature < bound.spectrum.lambda_max
    assert (np.abs(bound.remainder) <= bound.cubic * 1.001).all()  # the greatest third lies between the radii we met
    assert (bound.cubic <= 1.1 * np.abs(bound.remainder)).all()  # and it is no loose bound
    np.testing.assert_allclose(bound.steepest_third, abs(swept.expansion.third.mean()), rtol=0.1)


def test_gaps_below_the_floor_are_a_violation(batch, swept):
    bound = spectral_bound(tiny.llama(), batch, RADII[:1], gaps=swept.gaps[:1] * 0.9)
    assert not bound.holds


def test_float32_and_falling_radii_are_refused(batch):
    with pytest.raises(InputError, match=r"torch\.float32; give double_copy"):
        sweep(tiny.llama(dtype=torch.float32), batch, RADII)
    with pytest.raises(InputError, match="must rise"):
        spectral_bound(tiny.llama(), batch, RADII[::-1])
