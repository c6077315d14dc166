"""Moving parameters: away by the radius, home bit for bit, whatever happens inside."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import tiny
from gapo.model.perturb import displaced, global_norm
from gapo.model.policy import pair_logps
from gapo.pairs.collate import collate


class Trouble(Exception):
    pass


def some_parameters(seed, dtype, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    shapes = [(7, 5), (3,), (), (2, 3, 4)]
    parameters = [nn.Parameter((torch.randn(s, generator=generator) * scale).to(dtype)) for s in shapes]
    direction = [torch.randn(s, generator=generator).to(dtype) for s in shapes]
    return parameters, direction


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    radius=st.floats(1e-4, 10) | st.floats(-10, -1e-4),
    scale=st.floats(1e-3, 1e3),
    dtype=st.sampled_from([torch.float64, torch.float32, torch.bfloat16]),
    trouble=st.booleans(),
)
def test_parameters_gradients_and_random_state_come_home_bit_for_bit(seed, radius, scale, dtype, trouble):
    parameters, direction = some_parameters(seed, dtype, scale)
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    home = [p.detach().clone() for p in parameters]
    gradients = [p.grad.clone() for p in parameters]
    torch.manual_seed(seed % 1000)
    state = torch.get_rng_state()
    try:
        with displaced(parameters, direction, radius):
            torch.rand(3)
            if trouble:
                raise Trouble
    except Trouble:
        pass
    assert all(torch.equal(p, h) for p, h in zip(parameters, home, strict=True))
    assert all(torch.equal(p.grad, g) for p, g in zip(parameters, gradients, strict=True))
    assert torch.equal(torch.get_rng_state(), state)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**31), radius=st.floats(1e-3, 10))
def test_the_distance_travelled_is_the_radius_in_float64(seed, radius):
    parameters, direction = some_parameters(seed, torch.float64)
    home = [p.detach().clone() for p in parameters]
    with displaced(parameters, direction, -radius) as moved:
        assert moved == pytest.approx(radius, rel=1e-9)
        away = [p.detach() - h for p, h in zip(parameters, home, strict=True)]
        assert global_norm(away) == pytest.approx(radius, rel=1e-9)
        along = sum(float((a * d).sum()) for a, d in zip(away, direction, strict=True))
        assert along == pytest.approx(-radius * global_norm(direction), rel=1e-9)


def test_a_small_step_of_a_large_bf16_model_rounds_away_and_moved_says_so():
    parameters = [nn.Parameter(torch.ones(1_000_000, dtype=torch.bfloat16))]
    with displaced(parameters, [torch.ones(1_000_000)], 0.05) as moved:
        assert moved == 0


@pytest.mark.parametrize("length", [0.0, float("nan"), float("inf"), 1e-45])  # 0.05 / 1e-45 is no float32
def test_a_direction_without_length_leads_nowhere(length):
    parameters, direction = some_parameters(0, torch.float32)
    direction = [d * 0 + length for d in direction]
    home = [p.detach().clone() for p in parameters]
    with displaced(parameters, direction, 0.05) as moved:
        assert moved == 0
        assert all(torch.equal(p, h) for p, h in zip(parameters, home, strict=True))


def test_a_displaced_forward_leaves_the_model_as_it_was_in_float32():
    model = tiny.llama(dtype=torch.float32)
    parameters = list(model.parameters())
    home = [p.detach().clone() for p in parameters]
    batch = collate(tiny.random_pairs(3), tiny.PAD)
    before = pair_logps(model, batch).margin
    with displaced(parameters, [torch.randn_like(p) for p in parameters], 0.5), torch.no_grad():
        inside = pair_logps(model, batch).margin
    after = pair_logps(model, batch).margin
    assert all(torch.equal(p, h) for p, h in zip(parameters, home, strict=True))
    assert torch.equal(before, after)
    assert not torch.allclose(before, inside)
