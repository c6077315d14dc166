"""A Trainer that goes on after a kill as if there had been none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn
from transformers import set_seed
from transformers.trainer_callback import TrainerState
from transformers.trainer_utils import TrainOutput

from gapo.errors import InputError
from gapo.model.ranks import Ranks
from gapo.storage import clear_parts, writing
from gapo.training.checkpoints import FOLDER, newest_whole, remove, rotate, seal, set_aside, whats_missing
from gapo.training.choices import take_up_choices
from gapo.training.finite import check_weights
from gapo.training.shard import ShardingTrainer
from gapo.training.state import digest_of, read_state, write_state

if TYPE_CHECKING:
    from gapo.training.trainer import PreferenceTrainer

ARGUMENTS = "training_args.bin"


class ResumableTrainer(ShardingTrainer):
    """Checkpoints that are whole or skipped, and random numbers that go on where they were."""

    _random_state_due: str | None = None  # a checkpoint whose random state is not yet restored
    _saved_step: int | None = None
    _found: str | None = None  # a checkpoint that was just seen to be whole
    pairs_digest = ""
    ranks: Ranks

    def begin_or_resume(self, wish: str | bool | None) -> str | None:
        """The checkpoint to go on from, if any; what was decided when the run began is decided again."""
        checkpoint = self._whole_checkpoint(wish) if wish else None
        newest, self._found = checkpoint is not None and checkpoint == self._found, None
        self._saved_step, self._random_state_due = None, checkpoint
        set_seed(self.args.seed)  # whatever was drawn before: the order of the data is taken from this seed
        self.pairs_digest = digest_of(pair.id for pair in cast("PreferenceTrainer", self).train_dataset.encoded)
        if checkpoint is not None:
            state = read_state(checkpoint)
            if state["pairs"] != self.pairs_digest:
                raise InputError(f"the training pairs are not those {checkpoint} was made with; resume with the same")
            take_up_choices(cast("PreferenceTrainer", self), state["choices"])
        if self.args.should_save:
            clear_parts(Path(str(self.args.output_dir)))
            if checkpoint is None:
                set_aside(Path(self._get_output_dir()))
            elif newest:  # a kill may have come between the last checkpoint and the deletion of older ones
                self._rotate(Path(checkpoint), _state_of(checkpoint))
        self.accelerator.wait_for_everyone()
        return checkpoint

    def newest_checkpoint(self) -> str | None:
        """The newest whole checkpoint of the run, the same on every process."""
        newest = self.ranks.first_decides(lambda: newest_whole(Path(self._get_output_dir())))
        self._found = str(newest) if newest is not None else None
        return self._found

    def _whole_checkpoint(self, wish: str | bool) -> str:
        """The checkpoint asked for, or for True the newest whole one."""
        found = self.newest_checkpoint() if wish is True else str(wish)
        if found is None:
            raise InputError(f"there is no checkpoint in {self._get_output_dir()} to resume from")
        told = self.ranks.first_decides(lambda: whats_missing(Path(found))) if found != self._found else None
        if told is not None:
            raise InputError(f"{found} is not a whole checkpoint: {told}; take another one, or True for the newest")
        return found

    def _get_output_dir(self, trial: Any = None) -> str:
        """Checkpoints have a folder of their own in the run directory."""
        return str(Path(super()._get_output_dir(trial)) / FOLDER)

    # ---- saving ----

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """Everybody writes; then the list of files makes the checkpoint whole; only then may older ones go."""
        step = self.state.global_step
        if step == self._saved_step:
            return  # the same weights: writing them again would only unmake a whole checkpoint for a while
        check_weights(self.model, step, self.ranks)
        folder = Path(self._get_output_dir(trial)) / f"checkpoint-{step}"
        with self._whole_or_removed(folder):
            if self.args.should_save:
                shutil.rmtree(folder, ignore_errors=True)  # half-written before a kill
                write_state(cast("PreferenceTrainer", self), folder)
            self.accelerator.wait_for_everyone()
            with self._no_rotation():
                super()._save_checkpoint(model, trial)
            self.accelerator.wait_for_everyone()
            if self.args.should_save:
                torch.save(self.args, folder / ARGUMENTS)  # it was written without the limit
                seal(folder)
        if self.args.should_save:
            self._rotate(folder, self.state)
        self._saved_step = step

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Weights that are not finite are refused; a checkpoint's have been looked at."""
        if not _internal_call:
            check_weights(self.model, self.state.global_step, self.ranks)
        super().save_model(output_dir, _internal_call)

    @contextmanager
    def _whole_or_removed(self, folder: Path) -> Iterator[None]:
        """After an error, or Ctrl-C, no half of a checkpoint is left to fill the disk."""
        try:
            with writing(folder):
                yield
        except BaseException:
            if self.args.should_save:
                remove(folder)
            raise

    def _rotate(self, newest: Path, state: TrainerState) -> None:
        best = state.best_model_checkpoint
        rotate(newest.parent, newest, self.args.save_total_limit, Path(best) if best else None)

    @contextmanager
    def _no_rotation(self) -> Iterator[None]:
        """Trainer deletes old checkpoints before the new one is whole; we do it after."""
        limit, self.args.save_total_limit = self.args.save_total_limit, None
        try:
            yield
        finally:
            self.args.save_total_limit = limit

    # ---- going on ----

    def restore_random_state(self) -> None:
        """Before the first step after a resume: Trainer would do it after what we compute ahead of the step."""
        if self._random_state_due is not None:
            super()._load_rng_state(self._random_state_due)
            self._random_state_due = None

    def _load_rng_state(self, checkpoint: str | None) -> None:
        self.restore_random_state()

    def _evaluate(self, *args: Any, **options: Any) -> dict[str, float]:
        if self._random_state_due is not None:  # eval_on_start: this is not the start
            return {}
        return super()._evaluate(*args, **options)

    def already_finished(self, checkpoint: str) -> TrainOutput | None:
        """A checkpoint of the last step holds a finished run: load it. (Trainer would take one step too many.)"""
        state = _state_of(checkpoint)
        if state.global_step < self.set_initial_training_values(self.args, self.get_train_dataloader())[-1]:
            return None
        self._load_from_checkpoint(checkpoint)
        self.state = state
        if self.args.load_best_model_at_end and state.best_model_checkpoint:
            self._load_best_model()
        losses = [line["loss"] for line in state.log_history if "loss" in line]
        return TrainOutput(state.global_step, losses[-1] if losses else float("nan"), {})


def _state_of(checkpoint: str) -> TrainerState:
    return TrainerState.load_from_json(str(Path(checkpoint, "trainer_state.json")))
