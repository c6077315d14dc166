"""How pairs become steps: the arithmetic of processes, micro-batches, accumulation and anchors."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from gapo.errors import InputError
from gapo.training.config import PreferenceConfig


@dataclass(frozen=True)
class BatchArithmetic:
    """Counted as `transformers.Trainer` counts."""

    pairs: int
    processes: int
    per_device: int
    accumulation: int
    steps: int
    warmup: int
    anchor_batches: int | None  # K as it acts: at most the accumulation; None without an anchor

    @property
    def step_pairs(self) -> int:
        """The global batch."""
        return self.processes * self.per_device * self.accumulation

    @property
    def process_pairs(self) -> int:
        return self.per_device * self.accumulation

    @property
    def anchor_pairs(self) -> int | None:
        """Pairs over all processes that share an anchor."""
        return self.processes * self.per_device * self.anchor_batches if self.anchor_batches else None

    @property
    def anchors(self) -> int:
        """In one step."""
        return self.accumulation // self.anchor_batches if self.anchor_batches else 0


def batch_arithmetic(args: PreferenceConfig, pairs: int, processes: int) -> BatchArithmetic:
    """Steps, warm-up and anchors of a run over so many pairs."""
    per_device, accumulation = args.per_device_train_batch_size, args.gradient_accumulation_steps
    rows = processes * per_device
    if pairs < processes:
        raise InputError(
            f"{pairs} pairs are fewer than the {processes} processes that would share them; use fewer GPUs"
        )
    batches = pairs // rows if args.dataloader_drop_last else ceil(pairs / rows)
    in_epoch = max(ceil(batches / accumulation), 1)
    steps = args.max_steps if args.max_steps > 0 else ceil(args.num_train_epochs * in_epoch)
    anchored = args.chosen_objective().anchored
    return BatchArithmetic(
        pairs,
        processes,
        per_device,
        accumulation,
        steps,
        args.get_warmup_steps(steps),
        min(args.anchor_batches, accumulation) if anchored else None,
    )
