"""The processes that share a step: what they add up, exchange and decide together.

Alone, everything here is the identity, so that there is one way through the code for one process and for many.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from gapo.errors import InputError
from gapo.model.logps import PairLogps

T = TypeVar("T")
CPU = torch.device("cpu")
BUCKET_ENTRIES = 2**22  # gradients are added up so many entries at a time: 16 MB in fp32


@dataclass(frozen=True)
class Ranks:
    """This process, and how many there are. `device` is where collectives take their tensors."""

    here: int = 0
    total: int = 1
    device: torch.device = CPU

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes and speaks."""
        return self.here == 0

    @property
    def alone(self) -> bool:
        return self.total == 1

    @property
    def on_this_machine(self) -> int:
        """How many of the processes share this machine's memory, as the launcher says."""
        return 1 if self.alone else int(os.environ.get("LOCAL_WORLD_SIZE") or self.total)

    # ---- sums ----

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, in the tensor's own memory."""
        if not self.alone:
            dist.all_reduce(tensor)
        return tensor

    def sum_of(self, number: float) -> float:
        """The sum of a number that each process has, the same on all of them."""
        if self.alone:
            return number
        return float(self.sum(torch.tensor(number, dtype=self._exact, device=self.device)))

    def count(self, own: int) -> int:
        """How many there are on all processes together."""
        return round(self.sum_of(own))

    def mean(self, values: Tensor) -> float:
        """The mean of all values of all processes, in float64."""
        values = values.detach().to("cpu", torch.float64)
        count = self.count(len(values))
        return self.sum_of(float(values.sum())) / count if count else float("nan")

    def largest(self, number: int) -> int:
        """The largest of the processes' numbers."""
        if self.alone:
            return number
        tensor = torch.tensor(number, dtype=torch.int64, device=self.device)
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
        return int(tensor)

    def sum_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """`.grad` becomes the sum over all processes; a process without a gradient adds nothing."""
        if self.alone:
            return
        for bucket in _buckets(parameters):
            parts = [(p.grad if p.grad is not None else torch.zeros_like(p)).reshape(-1) for p in bucket]
            whole = self.sum(torch.cat(parts))
            for parameter, total in zip(bucket, whole.split([p.numel() for p in bucket]), strict=True):
                parameter.grad = total.view(parameter.shape)

    # ---- rows ----

    def gather(self, rows: Tensor) -> Tensor:
        """The rows of all processes, one process after the other; each may have another number of them."""
        if self.alone:
            return rows
        rows = rows.to(self.device)
        counts = torch.zeros(self.total, dtype=torch.int64, device=self.device)
        counts[self.here] = len(rows)
        longest = int(self.sum(counts).max())
        padded = rows.new_zeros((longest, *rows.shape[1:]))
        padded[: len(rows)] = rows
        parts = [torch.empty_like(padded) for _ in range(self.total)]
        dist.all_gather(parts, padded)
        return torch.cat([part[:count] for part, count in zip(parts, counts.tolist(), strict=True)])

    def gather_logps(self, logps: PairLogps) -> PairLogps:
        """The log-probs of all processes' pairs."""
        if self.alone:
            return logps
        fields = (logps.chosen, logps.rejected, logps.chosen_tokens, logps.rejected_tokens)
        return PairLogps(*(self.gather(field).to(field.device) for field in fields))

    def own(self, count: int) -> slice:
        """Where this process's rows, so many of them, stand in what `gather` gives."""
        if self.alone:
            return slice(0, count)
        counts = torch.zeros(self.total, dtype=torch.int64, device=self.device)
        counts[self.here] = count
        before = int(self.sum(counts)[: self.here].sum())
        return slice(before, before + count)

    def gather_objects(self, value: T) -> list[T]:
        """What each process has, in their order."""
        if self.alone:
            return [value]
        found: list[T | None] = [None] * self.total
        dist.all_gather_object(found, value)
        return cast("list[T]", found)

    # ---- decisions ----

    def first_decides(self, decide: Callable[[], T]) -> T:
        """What the first process finds, on all of them; its refusal is everyone's."""
        if self.alone:
            return decide()
        answer: list[object] = [None, None]
        if self.first:
            try:
                answer = [decide(), None]
            except InputError as error:
                answer = [None, str(error)]
        dist.broadcast_object_list(answer, src=0, device=self.device)
        if answer[1] is not None:
            raise InputError(str(answer[1]))
        return cast("T", answer[0])

    @contextmanager
    def first_first(self) -> Iterator[None]:
        """The first process goes through alone; the others follow and find what it has made."""
        if not self.first:
            self.wait()
        try:
            yield
        finally:
            if self.first:
                self.wait()

    def wait(self) -> None:
        """Until all processes are here."""
        if not self.alone:
            self.largest(0)  # an all-reduce: NCCL's barrier would have to guess the device

    @property
    def _exact(self) -> torch.dtype:
        return torch.float32 if self.device.type == "mps" else torch.float64


ALONE = Ranks()


def joined() -> Ranks:
    """The processes of the process group this one has joined; alone without one."""
    if not (dist.is_available() and dist.is_initialized()):
        return ALONE
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    on_cpu = accelerator is None or dist.get_backend() == "gloo"
    device = CPU if on_cpu or accelerator is None else torch.device(accelerator.type, _local_rank())
    return Ranks(dist.get_rank(), dist.get_world_size(), device)


def join() -> Ranks:
    """Join the processes a launcher has started, if it has started several; in the way `TrainingArguments` would."""
    if launched() > 1 and not dist.is_initialized():
        from accelerate import PartialState

        PartialState(cpu=not torch.accelerator.is_available())
    return joined()


def launched() -> int:
    """How many processes a launcher has started, also before they have joined."""
    return max(1, int(os.environ.get("WORLD_SIZE") or 1))


def leave() -> None:
    """Leave the process group at the end of a program."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def _local_rank() -> int:
    return int(os.environ.get("LOCAL_RANK") or 0)


def _buckets(parameters: Sequence[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """Parameters of one type together, as many as fill a bucket."""
    bucket: list[nn.Parameter] = []
    filled = 0
    for parameter in parameters:
        if bucket and (filled + parameter.numel() > BUCKET_ENTRIES or parameter.dtype != bucket[0].dtype):
            yield bucket
            bucket, filled = [], 0
        bucket.append(parameter)
        filled += parameter.numel()
    if bucket:
        yield bucket
