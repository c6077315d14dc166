"""What a piece of code asks of the network, and of the arithmetic unit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

KINDS = {"_allgather_base_": "all_gather", "_reduce_scatter_base_": "reduce_scatter", "allreduce_": "all_reduce"}
FEW = 64  # bytes: a message of a few numbers


class Collectives(TorchDispatchMode):
    """The whole tensor of every collective, by kind; messages of a few numbers are left out."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes: Counter[str] = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kind = KINDS.get(function._schema.name.removeprefix("c10d::"))
        if kind is not None:
            flat = [t for arg in args for t in (arg if isinstance(arg, list) else [arg]) if isinstance(t, torch.Tensor)]
            size = max(t.numel() * t.element_size() for t in flat)
            self.bytes[kind] += size if size > FEW else 0
        return function(*args, **(kwargs or {}))


def flop_counter() -> FlopCounterMode:
    """Torch's counter overlooks `addmm_`, with which the head adds up its weight's gradient chunk by chunk."""
    in_place = {torch.ops.aten.addmm_: lambda _, left, right, **rest: 2 * left[0] * left[1] * right[1]}
    return FlopCounterMode(display=False, custom_mapping=in_place)


@contextmanager
def as_one_of(processes: int) -> Iterator[None]:
    """A process group without other processes: collectives are started and move nothing."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=processes)
    try:
        yield
    finally:
        dist.destroy_process_group()
