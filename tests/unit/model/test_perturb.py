"""Moving parameters by example: memory that is used up or not, parts of a tensor, gradients set aside."""

from __future__ import annotations

import math
from contextlib import contextmanager

import pytest
import torch
from torch import nn
from torch.distributed.tensor import DTensor, Shard, distribute_tensor, init_device_mesh

from collectives import as_one_of
from gapo.model.perturb import displaced, global_norm, without_gradients


def parameters_and_direction(dtype=torch.float64):
    draw = torch.Generator().manual_seed(0)
    shapes = [(4, 3), (5,)]
    made = [torch.randn(2, *shape, generator=draw, dtype=torch.float64).to(dtype) for shape in shapes]
    return [nn.Parameter(both[0].clone()) for both in made], [both[1].clone() for both in made]


def as_parts(tensors, mesh):
    return [distribute_tensor(each.detach(), mesh, [Shard(0)]) for each in tensors]


@pytest.fixture
def mesh():
    with as_one_of(1):
        yield init_device_mesh("cpu", (1,))


def test_the_norm_is_one_over_all_tensors():
    assert global_norm([torch.tensor([3.0]), torch.tensor([[4.0, 12.0]])]) == pytest.approx(13)


def test_a_direction_keeps_its_values_unless_its_memory_may_be_used_up():
    parameters, direction = parameters_and_direction()
    kept = [d.clone() for d in direction]
    with displaced(parameters, direction, 0.3):
        pass
    assert all(torch.equal(d, k) for d, k in zip(direction, kept, strict=True))
    with displaced(parameters, direction, 0.3, consume=True):
        assert [p.data_ptr() for p in parameters] == [d.data_ptr() for d in direction]


@pytest.mark.parametrize("consume", [False, True])
def test_the_way_of_a_float64_direction_ends_in_the_weights_own_type(consume):
    parameters, _ = parameters_and_direction(torch.float32)
    _, direction = parameters_and_direction()
    length = math.sqrt(sum(float((d**2).sum()) for d in direction))
    wanted = [p.detach().double() + 2 * d / length for p, d in zip(parameters, direction, strict=True)]
    with displaced(parameters, direction, 2.0, consume=consume):
        assert {p.dtype for p in parameters} == {torch.float32}
        for parameter, there in zip(parameters, wanted, strict=True):
            assert torch.allclose(parameter.detach().double(), there, atol=1e-6)


def test_the_radius_zero_leads_nowhere_and_leaves_the_random_state():
    parameters, direction = parameters_and_direction()
    homes = [p.data_ptr() for p in parameters]
    torch.manual_seed(0)
    state = torch.get_rng_state()
    with displaced(parameters, direction, 0.0) as moved:
        torch.rand(3)
        assert moved == 0
        assert [p.data_ptr() for p in parameters] == homes
    assert torch.equal(torch.get_rng_state(), state)


def test_a_short_direction_leads_as_far_as_a_long_one():
    parameters, direction = parameters_and_direction()
    with displaced(parameters, [d * 1e-3 for d in direction], 0.7) as moved:
        assert moved == pytest.approx(0.7, rel=1e-9)


@pytest.mark.parametrize("trouble", [False, True])
def test_parts_of_tensors_move_where_they_lie_and_come_home(mesh, trouble):
    whole, direction = parameters_and_direction()
    length = math.sqrt(sum(float((d**2).sum()) for d in direction))
    wanted = [p.detach() - 0.4 * d / length for p, d in zip(whole, direction, strict=True)]
    parts = [nn.Parameter(part) for part in as_parts(whole, mesh)]
    places = [part.to_local().data_ptr() for part in parts]
    try:
        with displaced(parts, as_parts(direction, mesh), -0.4, consume=True) as moved:
            assert moved == pytest.approx(0.4, rel=1e-12)
            assert [part.to_local().data_ptr() for part in parts] == places  # FSDP2 gathers from there
            assert all(torch.allclose(part.to_local(), there) for part, there in zip(parts, wanted, strict=True))
            if trouble:
                raise KeyError
    except KeyError:
        assert trouble
    assert all(torch.equal(part.to_local(), home) for part, home in zip(parts, whole, strict=True))
    assert all(isinstance(part, DTensor) and part.requires_grad and part.grad is None for part in parts)


def test_whole_tensors_beside_parts_move_with_them(mesh):
    whole, direction = parameters_and_direction()
    mixed = [nn.Parameter(as_parts(whole[:1], mesh)[0]), whole[1]]
    home = whole[1].detach().clone()
    with displaced(mixed, [as_parts(direction[:1], mesh)[0], direction[1].float()], 1.5) as moved:
        assert moved == pytest.approx(1.5, rel=1e-6)  # the second direction was rounded to float32
        assert mixed[1].dtype == torch.float64
        assert not torch.equal(mixed[1], home)
    assert torch.equal(mixed[1], home)


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")  # its length is a number
@pytest.mark.parametrize("in_parts", [False, True])
def test_a_direction_may_hang_on_a_graph_of_its_own(mesh, in_parts):
    parameters, direction = parameters_and_direction()
    if in_parts:
        parameters = [nn.Parameter(part) for part in as_parts(parameters, mesh)]
        direction = as_parts(direction, mesh)
    direction = [d.requires_grad_() for d in direction]
    with displaced(parameters, direction, 0.5, consume=True) as moved:
        assert moved == pytest.approx(0.5)
        assert all(p.is_leaf and p.requires_grad for p in parameters)


@pytest.mark.parametrize(("there", "kept"), [(True, [0, 1]), (False, [])])
def test_the_random_state_of_every_gpu_comes_home(monkeypatch, there, kept):
    asked = []

    @contextmanager
    def fork_rng(devices):
        asked.extend(devices)
        yield

    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.random, "fork_rng", fork_rng)
    with displaced(*parameters_and_direction(), 0.5):
        assert asked == kept


def test_gradients_set_aside_are_the_same_objects_again_also_after_an_error():
    parameters, marks = parameters_and_direction()
    parameters[0].grad = marks[0]
    with pytest.raises(KeyError), without_gradients(parameters):
        assert all(p.grad is None for p in parameters)
        parameters[1].grad = marks[1]
        raise KeyError
    assert parameters[0].grad is marks[0]
    assert parameters[1].grad is None
