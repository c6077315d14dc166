"""FSDP2 in a trainer: weights are shared out when the trainer is made, and written out whole at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from gapo.model.sharding import is_sharded, reshard
from gapo.training.hub import ModelFolderTrainer
from gapo.training.shard_metadata import only_weights, refuse_foreign_shards


class ShardingTrainer(ModelFolderTrainer):
    """Trainer shares the weights out at the start of training; what comes before it needs them on the devices too."""

    model: Any
    is_fsdp_enabled: bool

    def shard(self) -> None:
        """Share the weights out, as Trainer would, with the optimiser that belongs to them."""
        if not self.is_fsdp_enabled or is_sharded(self.model):
            return
        from torch.distributed.fsdp import MixedPrecisionPolicy, register_fsdp_forward_method

        # gathered in fp32: bf16 copies of moved weights would dither the move; autocast computes in bf16 where it may
        self.accelerator.state.fsdp_plugin.mixed_precision_policy = MixedPrecisionPolicy()
        if self.args.gradient_checkpointing:
            new = getattr(self.model, "activation_checkpointing_enable", None)  # its name since transformers 5.23
            (new or self.model.gradient_checkpointing_enable)(self.args.gradient_checkpointing_kwargs)
        self.create_optimizer()
        model, self.optimizer = self.accelerator.prepare(self.model, self.optimizer)
        self.model = self.model_wrapped = model
        register_fsdp_forward_method(self.model, "generate")

    def _prepare_for_training(
        self, max_steps: int, train_dataloader: Any, resume_from_checkpoint: str | None
    ) -> tuple[nn.Module, Any]:
        """What is left to do for shards: preparing them twice would match weights and optimiser by chance."""
        if not is_sharded(self.model):
            return super()._prepare_for_training(max_steps, train_dataloader, resume_from_checkpoint)  # type: ignore[no-any-return]
        self.create_scheduler(num_training_steps=max_steps)
        if resume_from_checkpoint is not None:
            self._load_from_checkpoint(resume_from_checkpoint, self.model_wrapped)
            self._load_optimizer_and_scheduler(resume_from_checkpoint)
            reshard(self.model)
        for name in ("model", "optimizer", "lr_scheduler"):
            setattr(self.callback_handler, name, getattr(self, name))
        self.callback_handler.train_dataloader = train_dataloader
        return self.model, train_dataloader

    # ---- a checkpoint may come from anybody: nothing of it is read as code ----

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        refuse_foreign_shards(Path(resume_from_checkpoint))
        with only_weights():
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        with only_weights():
            super()._load_optimizer_and_scheduler(checkpoint)

    def _load_best_model(self) -> None:
        if self.state.best_model_checkpoint:  # named by the checkpoint, perhaps in another folder
            refuse_foreign_shards(Path(self.state.best_model_checkpoint))
        with only_weights():
            super()._load_best_model()

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Weights in shards are gathered on the first process, which writes the model as one."""
        if not is_sharded(self.model) or _internal_call:  # a checkpoint of shards stays in shards
            super().save_model(output_dir, _internal_call)
            return
        reshard(self.model)
        state = self.accelerator.get_state_dict(self.model)
        if self.args.should_save:
            folder = str(output_dir or self.args.output_dir)
            Path(folder).mkdir(parents=True, exist_ok=True)
            self._save(folder, state_dict=state)
        self.accelerator.wait_for_everyone()
