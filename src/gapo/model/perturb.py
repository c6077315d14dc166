"""The only code, the optimiser aside, that moves parameters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn


def global_norm(tensors: Iterable[Tensor]) -> float:
    """One l2 norm over all tensors, summed in float64 (in float32 on devices that have no other)."""

    def norm(tensor: Tensor) -> float:
        exact = torch.float32 if tensor.device.type == "mps" else torch.float64
        return float(torch.linalg.vector_norm(tensor, dtype=exact))

    return math.sqrt(sum(norm(tensor) ** 2 for tensor in tensors))


@contextmanager
def displaced(
    parameters: Sequence[nn.Parameter], direction: Sequence[Tensor], radius: float, *, consume: bool = False
) -> Iterator[float]:
    """Move to theta + radius * direction/||direction|| and yield the distance really travelled.

    The weights there have a storage of their own, and the parameters are pointed to it: home is never written to, so
    they are home again on exit, bit for bit, also after an error; the random state comes home too. `consume` makes the
    direction's memory that storage. A direction without length (0, inf or NaN) leads nowhere: nothing moves and the
    distance is 0.
    """
    length = global_norm(direction)
    if not (math.isfinite(length) and length > 0) or radius == 0:
        with _same_random_state():
            yield 0.0
        return
    home = [parameter.data for parameter in parameters]
    try:
        with torch.no_grad():
            for parameter, start, along in zip(parameters, home, direction, strict=True):
                along = along.to(start.dtype)
                parameter.data = torch.add(start, along, alpha=radius / length, out=along if consume else None)
            moved = global_norm(p.data - start for p, start in zip(parameters, home, strict=True))
        with _same_random_state():
            yield moved
    finally:
        for parameter, start in zip(parameters, home, strict=True):
            parameter.data = start


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
