"""What leaves the run directory: the model and its card, not the record and the checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transformers import Trainer

from gapo.storage import whole_file
from gapo.training.card import model_card


class ModelFolderTrainer(Trainer):
    """A Trainer that writes our card and pushes the folder `model` of its run directory."""

    def create_model_card(self, *args: Any, **options: Any) -> None:
        """Our card: method, knobs, data, noise, result."""
        if self.is_world_process_zero():
            card = model_card(self)  # type: ignore[arg-type]
            with whole_file(Path(str(self.args.output_dir), "README.md")) as part:
                part.write_text(card, encoding="utf-8")

    def push_to_hub(self, *args: Any, **options: Any) -> Any:
        """Push the model and its card, not the run's record and checkpoints."""
        if self.hub_model_id is None:
            self.init_hf_repo(token=options.get("token"))  # named after the run, not after the folder `model`
        with self._in_model_folder():
            return super().push_to_hub(*args, **options)

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        with self._in_model_folder():
            super()._push_from_checkpoint(checkpoint_folder)

    @contextmanager
    def _in_model_folder(self) -> Iterator[None]:
        run = str(self.args.output_dir)
        self.args.output_dir = str(Path(run) / "model")
        Path(self.args.output_dir).mkdir(parents=True, exist_ok=True)
        try:
            yield
        finally:
            self.args.output_dir = run
