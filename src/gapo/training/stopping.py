"""Asked to leave: SIGTERM, or Ctrl-C once, finishes the step and saves a checkpoint. Ctrl-C twice leaves now."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from gapo.errors import Interrupted
from gapo.model.ranks import joined
from gapo.signals import heard

if TYPE_CHECKING:
    from gapo.training.trainer import PreferenceTrainer

HEARD = {
    signal.SIGINT: "finishing the step, then saving a checkpoint; press again to leave now",
    signal.SIGTERM: "asked to leave (SIGTERM): finishing the step, then saving a checkpoint",
}


class Stopping(TrainerCallback):
    """Hears the signals while a trainer trains, and makes all ranks stop after the same step."""

    def __init__(self) -> None:
        self.asked = 0  # the signal that asked, or 0
        self._agreed = False  # by all ranks
        self._stepping = False

    @contextmanager
    def heard_by(self, trainer: PreferenceTrainer) -> Iterator[None]:
        """Around `trainer.train`: after a stop there is a whole checkpoint, and `Interrupted` names it."""
        trainer.add_callback(self)
        with heard(self._hear, signal.SIGINT, signal.SIGTERM):
            yield
            asked = trainer.ranks.largest(self.asked)
            if asked:
                trainer._save_checkpoint(trainer.model, None)  # nothing to do unless the last step was over when asked
                trainer.ranks.wait()  # the first rank has sealed it
                step = trainer.state.global_step
                raise Interrupted(asked, Path(trainer._get_output_dir()) / f"checkpoint-{step}")

    def _hear(self, number: int, _: FrameType | None) -> None:
        if not self._stepping or (self.asked and number == signal.SIGINT):
            raise Interrupted(number)
        if not self.asked and joined().first:
            os.write(2, f"\ngapo: {HEARD[signal.Signals(number)]}\n".encode())  # a handler must not touch buffers
        self.asked = self.asked or number

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._stepping = True

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        # a rank that stopped alone would leave the others waiting. What is heard meanwhile waits for the next step: it
        # must not be written over
        if agreed := joined().largest(self.asked):
            self.asked = agreed
            self._agreed = control.should_save = True

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._agreed:  # not sooner: the checkpoint keeps the flags, and is one to go on from
            control.should_training_stop = True

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._agreed:  # in the middle of an epoch nothing is due
            control.should_evaluate = control.should_save = control.should_log = False

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._stepping = False
