"""FSDP2: weights of which every process holds a part, gathered for each pass.

Three things differ from whole weights. A part must be moved where it lies: the gathered copy is made from there. A
gathered copy may outlive a pass without gradient and then hides the move: it is thrown away after each such pass. And a
pass is a conversation: every process must make as many of them as the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import MethodType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn


def is_shard(tensor: Tensor) -> bool:
    """Whether this is one process's part of a tensor."""
    return hasattr(tensor, "to_local")


def is_sharded(model: nn.Module) -> bool:
    """Whether FSDP2 has taken the model apart."""
    return hasattr(model, "set_requires_gradient_sync")


def local(tensor: Tensor) -> Tensor:
    """The part that lies here; a whole tensor is its own part."""
    return tensor.to_local() if is_shard(tensor) else tensor  # type: ignore[attr-defined, no-any-return]


def shard_like(whole: Tensor, shard: Tensor) -> Tensor:
    """The part of a whole tensor (the same on all processes) that belongs where `shard` is."""
    if not is_shard(shard):
        return whole
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(whole, shard.device_mesh, shard.placements, src_data_rank=None)  # type: ignore[attr-defined]


def sum_of_squares(tensors: Sequence[Tensor]) -> float:
    """Over all entries, also of those parts that lie elsewhere; in float64 where the device has it."""
    exact = {part.device.type: torch.float32 if part.device.type == "mps" else torch.float64 for part in tensors}
    norms = [float(torch.linalg.vector_norm(local(part.detach()), dtype=exact[part.device.type])) for part in tensors]
    whole = sum(norm**2 for norm, part in zip(norms, tensors, strict=True) if not is_shard(part))
    parts = [(norm, part) for norm, part in zip(norms, tensors, strict=True) if is_shard(part)]
    if not parts:
        return whole
    mesh: Any = parts[0][1].device_mesh  # type: ignore[attr-defined]
    total = torch.tensor(sum(norm**2 for norm, _ in parts), dtype=torch.float64, device=local(parts[0][1]).device)
    for dimension, placement in enumerate(parts[0][1].placements):  # type: ignore[attr-defined]
        if placement.is_shard():  # copies along other dimensions of the mesh count once
            dist.all_reduce(total, group=mesh.get_group(dimension))
    return whole + float(total)


def reshard(model: nn.Module) -> None:
    """Throw the gathered weights away: the next pass gathers what the shards then hold."""
    if is_sharded(model):
        for module in model.modules():
            if is_sharded(module):
                module.reshard()  # type: ignore[operator]


def no_graph(model: nn.Module) -> AbstractContextManager[object]:
    """Without gradients, as fast as may be: what inference mode gathers could not be trained on afterwards."""
    return torch.no_grad() if is_sharded(model) else torch.inference_mode()


@contextmanager
def fresh_weights(model: nn.Module) -> Iterator[None]:
    """Around a pass without gradient: what it gathers does not outlive it."""
    try:
        yield
    finally:
        reshard(model)


def gradient_factor(model: nn.Module) -> int:
    """FSDP2 averages gradients over the processes; a loss times this gives their sum."""
    return dist.get_world_size() if is_sharded(model) else 1


def as_forward(model: nn.Module, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function(model, ...)` as a forward of the model: FSDP2 gathers weights only inside one.

    What it returns must be tensors, for the backward starts from there.
    """
    if not is_sharded(model):
        return MethodType(function, model)
    from torch.distributed.fsdp import register_fsdp_forward_method

    name = f"gapo{function.__name__}"
    if name not in vars(model):
        setattr(model, name, MethodType(function, model))
        register_fsdp_forward_method(model, name)
    return getattr(model, name)  # type: ignore[no-any-return]
