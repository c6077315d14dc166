"""What machines can do: figures of data sheets, and one that is measured here.

The shares of the peak are assumptions, and every estimate that uses them says so.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

from gapo.errors import InputError, did_you_mean

PEAK_SHAPE = (2048, 1536, 1536)  # large enough that the multiply is all there is, small enough for a tenth of a second
SHARE_BF16 = 0.40  # of the peak that a training step reaches; assumed
SHARE_FP32 = 0.70  # plain multiplies are slower and easier to keep busy; assumed
SHARE_LINK = 0.70  # of the bandwidth between GPUs that collectives reach; assumed
ROOM = 0.90  # of a GPU's memory that tensors may take: its context, NCCL and fragments need the rest; assumed


@dataclass(frozen=True)
class Machine:
    """One GPU (or this computer): memory in bytes, dense FLOP/s, bytes a second that it can send to its neighbours."""

    name: str
    memory: float
    bf16: float
    fp32: float
    link: float  # inside a node
    link_out: float = 50e9  # 400 Gb/s for each GPU between nodes

    def seconds(self, flops: float, *, bf16: bool) -> float:
        return flops / (self.bf16 * SHARE_BF16 if bf16 else self.fp32 * SHARE_FP32)

    def sending(self, size: float, nodes: int = 1) -> float:
        """Seconds to send so many bytes, at the slowest link on the way."""
        return size / (SHARE_LINK * (self.link if nodes == 1 else min(self.link, self.link_out)))


GPUS = {
    "a100-80gb": Machine("A100 80 GB", 80e9, 312e12, 19.5e12, 300e9),
    "h100-80gb": Machine("H100 80 GB", 80e9, 989e12, 67e12, 450e9),
    "h200-141gb": Machine("H200 141 GB", 141e9, 989e12, 67e12, 450e9),
    "b200-180gb": Machine("B200 180 GB", 180e9, 2250e12, 75e12, 900e9),
}
CPU = "cpu"


def machine(name: str) -> Machine:
    """The GPU of this name, or `cpu`, this computer, whose rate is measured in a moment."""
    if name == CPU:
        return this_computer()
    if name not in GPUS:
        raise InputError(f"unknown about.gpu {name!r}; {did_you_mean(name, [*GPUS, CPU])}")
    return GPUS[name]


def this_computer() -> Machine:
    from gapo.model.memory import available_memory
    from gapo.model.multiply import multiply_fast

    multiply_fast()  # as the run will
    peak = matmul_peak(torch.float32, seconds=0.1)
    return Machine("this computer", available_memory("cpu"), peak, peak, float("inf"))


def matmul_peak(dtype: torch.dtype, seconds: float = 0.3) -> float:
    """The best FLOP/s of one large multiply, by the kernel that models use, over `seconds` and at least three of them.

    Not `out=`: that is a kernel of its own, which `multiply_fast` leaves as it is.
    """
    rows, inner, columns = PEAK_SHAPE
    left, right = torch.randn(rows, inner).to(dtype), torch.randn(inner, columns).to(dtype)
    torch.mm(left, right)  # pages and threads are there before the clock runs
    best, done, start = float("inf"), 0, time.perf_counter()
    while done < 3 or time.perf_counter() - start < seconds:
        before = time.perf_counter()
        torch.mm(left, right)
        best = min(best, time.perf_counter() - before)
        done += 1
    return 2 * rows * inner * columns / best
