"""One optimiser step of any trainer, the way `transformers.Trainer` takes it, as often as one likes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from transformers import TrainerCallback

from gapo.training.doubts import judgement_for


class _Ready(Exception):
    """Raised where training would begin."""


class _StopBeforeTheFirstStep(TrainerCallback):
    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        raise _Ready


class Stepper:
    """A trainer that has set everything up and waits before its first step.

    `train()` itself does the setting up (optimiser, wrapping, references, anchors' plan) and is left by an exception,
    so nothing of it is repeated here and nothing of it is timed. Steps then go through the trainer's own
    `get_batch_samples` and `training_step`; micro-batches are the data set cut in its order.
    """

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer
        trainer.add_callback(_StopBeforeTheFirstStep)
        try:
            trainer.train()
        except _Ready:
            trainer.remove_callback(_StopBeforeTheFirstStep)
        self._micro_batches = trainer.args.gradient_accumulation_steps

    def step(self, micro_batches: int | None = None) -> None:
        """One step on all micro-batches, or on the first few to warm up."""
        trainer, count = self.trainer, micro_batches or self._micro_batches
        model = trainer.model_wrapped
        self._judge()
        samples, items = trainer.get_batch_samples(self._collated(), count, trainer.args.device)
        trainer.current_gradient_accumulation_steps = len(samples)
        self._tell("on_step_begin")
        for place, inputs in enumerate(samples):
            trainer.accelerator.gradient_state._set_sync_gradients(place == len(samples) - 1)
            trainer.training_step(model, inputs, items)
        norm = trainer._clip_grad_norm(model) if trainer.args.max_grad_norm > 0 else None
        trainer._get_grad_norm(model, grad_norm=norm)
        self._tell("on_pre_optimizer_step")
        trainer.optimizer.step()
        self._tell("on_optimizer_step")
        trainer.lr_scheduler.step()
        model.zero_grad()
        trainer.state.global_step += 1
        self._tell("on_step_end")

    @contextmanager
    def memory_at_hand(self) -> Iterator[None]:
        """Inside, the memory an engine keeps from step to step is there already, as in training; then it is free for
        the next variant."""
        engine = getattr(getattr(self.trainer, "plan", None), "engine", None)
        if engine is None:
            yield
            return
        engine.reserve(self.trainer.model, len(self.trainer.train_dataset))
        try:
            yield
        finally:
            engine.release()

    def _judge(self) -> None:
        """Where labels are judged before the first step, judge the step's: in one epoch each pair is judged once, so
        this is what judging adds to its step."""
        trainer = self.trainer
        if getattr(getattr(trainer, "plan", None), "judgement", None) is not None:
            trainer.plan = replace(trainer.plan, judgement=judgement_for(trainer))

    def _collated(self) -> Iterator[Any]:
        """Micro-batches made as they are drawn, as by a data loader without workers."""
        trainer = self.trainer
        size = trainer.args.per_device_train_batch_size
        for start in range(0, len(trainer.train_dataset), size):
            yield trainer.data_collator([trainer.train_dataset[at] for at in range(start, start + size)])

    def _tell(self, event: str) -> None:
        trainer = self.trainer
        getattr(trainer.callback_handler, event)(trainer.args, trainer.state, trainer.control)
