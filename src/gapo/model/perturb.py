"""The only code, the optimiser aside, that moves parameters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from gapo.model.sharding import is_shard, local, sum_of_squares


def global_norm(tensors: Iterable[Tensor]) -> float:
    """One l2 norm over all tensors, summed in float64 (in float32 on devices that have no other)."""
    return math.sqrt(sum_of_squares(list(tensors)))


@contextmanager
def displaced(
    parameters: Sequence[nn.Parameter], direction: Sequence[Tensor], radius: float, *, consume: bool = False
) -> Iterator[float]:
    """Move to theta + radius * direction/||direction|| and yield the distance really travelled.

    The weights there have a storage of their own, and the parameters are pointed to it: home is never written to, so
    they are home again on exit, bit for bit, also after an error; the random state comes home too. `consume` makes the
    direction's memory that storage. Shards are moved where they lie, since FSDP2 gathers from there, and home is a copy
    of them. A direction without length (0, inf or NaN, or so short that radius/length overflows) leads nowhere: nothing
    moves and the distance is 0.
    """
    length = global_norm(direction)
    shortest = abs(radius) / min(torch.finfo(p.dtype).max for p in parameters)
    if not (math.isfinite(length) and length > shortest) or radius == 0:
        with _same_random_state():
            yield 0.0
        return
    go = _moved_in_place if any(map(is_shard, parameters)) else _pointed_elsewhere
    with go(parameters, direction, radius / length, consume=consume) as moved, _same_random_state():
        yield moved


@contextmanager
def _pointed_elsewhere(
    parameters: Sequence[nn.Parameter], direction: Sequence[Tensor], step: float, *, consume: bool
) -> Iterator[float]:
    home = [parameter.data for parameter in parameters]
    try:
        with torch.no_grad():
            for parameter, start, along in zip(parameters, home, direction, strict=True):
                along = along.to(start.dtype)
                parameter.data = torch.add(start, along, alpha=step, out=along if consume else None)
            moved = global_norm(p.data - start for p, start in zip(parameters, home, strict=True))
        yield moved
    finally:
        for parameter, start in zip(parameters, home, strict=True):
            parameter.data = start


@contextmanager
def _moved_in_place(
    parameters: Sequence[nn.Parameter], direction: Sequence[Tensor], step: float, *, consume: bool
) -> Iterator[float]:
    """Weights gathered before the move must be thrown away before the next pass, and so at the end."""
    here = [local(parameter.detach()) for parameter in parameters]
    home = [part.clone() for part in here]
    try:
        with torch.no_grad():
            for part, start, along in zip(here, home, direction, strict=True):
                torch.add(start, local(along).to(start.dtype), alpha=step, out=part)
            moved = global_norm(p - _like(start, p) for p, start in zip(parameters, home, strict=True))
        yield moved
    finally:
        for part, start in zip(here, home, strict=True):
            part[...] = start


def _like(part: Tensor, parameter: Tensor) -> Tensor:
    """What lies here as a shard of the same kind as the parameter."""
    if not is_shard(parameter):
        return part
    from torch.distributed.tensor import DTensor

    return DTensor.from_local(
        part,
        parameter.device_mesh,  # type: ignore[attr-defined]
        parameter.placements,  # type: ignore[attr-defined]
        run_check=False,
        shape=parameter.shape,
        stride=parameter.stride(),
    )


@contextmanager
def _same_random_state() -> Iterator[None]:
    devices = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    with torch.random.fork_rng(devices=devices):
        yield


@contextmanager
def without_gradients(parameters: Sequence[nn.Parameter]) -> Iterator[None]:
    """Set the gradients aside; inside they start empty, afterwards they are the same objects as before."""
    aside = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        parameter.grad = None
    try:
        yield
    finally:
        for parameter, gradient in zip(parameters, aside, strict=True):
            parameter.grad = gradient
