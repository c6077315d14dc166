"""What a checkpoint keeps beyond Trainer's own: statistics, engine, monitors, choices, baseline, watch over labels."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from gapo.storage import whole_file
from gapo.training.choices import choices_of
from gapo.training.moments import RunningMoments
from gapo.training.record import read_steps

if TYPE_CHECKING:
    from gapo.training.trainer import PreferenceTrainer

STATE_FILE = "gapo.json"
DRIFT_FILE, WATCH_FILE = "drift.safetensors", "watch.safetensors"


def digest_of(ids: Iterable[str]) -> str:
    """Pairs by id, in their order: a run goes on with those it began with."""
    digest = hashlib.blake2b(digest_size=16)
    for name in ids:
        digest.update(f"{name}\n".encode())
    return digest.hexdigest()


def write_state(trainer: PreferenceTrainer, folder: Path) -> None:
    """Into a checkpoint's folder, after the run's record up to here is on disk."""
    books, engine, watch = trainer.books, trainer.plan.engine, trainer.plan.watch
    books.record.write_down()
    content = {
        "moments": asdict(trainer.plan.moments),
        **books.monitors.state(),
        "engine": engine.state() if engine is not None else {},
        "watch": watch.state() if watch is not None else {},
        "choices": choices_of(trainer),
        "pairs": trainer.pairs_digest,
        "seconds": books.seconds(),
        "loss_since_log": float(trainer._tr_loss),
        "last_logged": trainer._globalstep_last_logged,
    }
    with whole_file(folder / STATE_FILE) as part:
        part.write_text(json.dumps(content))
    if books.drift is not None:
        from safetensors.torch import save_file

        save_file(books.drift.state(), folder / DRIFT_FILE)
    if watch is not None:
        from safetensors.torch import save_file

        save_file(watch.window.state(), folder / WATCH_FILE)


def read_state(checkpoint: str) -> dict[str, Any]:
    """What `write_state` wrote, and the step it was written at."""
    state: dict[str, Any] = json.loads(Path(checkpoint, STATE_FILE).read_text())
    state["folder"] = checkpoint
    state["step"] = json.loads(Path(checkpoint, "trainer_state.json").read_text())["global_step"]
    return state


def read_drift(checkpoint: str | None) -> dict[str, torch.Tensor] | None:
    """The baseline of the drift, as it was measured at the start of the run."""
    if checkpoint is None or not Path(checkpoint, DRIFT_FILE).is_file():
        return None
    from safetensors.torch import load_file

    return load_file(Path(checkpoint, DRIFT_FILE))


def restore_state(trainer: PreferenceTrainer, state: dict[str, Any]) -> None:
    """Statistics, engine and monitors as they were; the record is already cut to the checkpoint's step."""
    trainer.plan = replace(trainer.plan, moments=RunningMoments(**state["moments"]))
    if trainer.plan.engine is not None:
        trainer.plan.engine.load_state(state["engine"])
    if trainer.plan.watch is not None:
        from safetensors.torch import load_file

        trainer.plan.watch.load_state(state["watch"], load_file(Path(state["folder"], WATCH_FILE)))
    lines = read_steps(trainer.books.record.steps_path)
    trainer.books.monitors.replay(lines, state["warnings"], state["said"])
    trainer.books.go_on([line for line in lines if line["step"] > state["last_logged"]], state["seconds"])


def restore_log(trainer: PreferenceTrainer, state: dict[str, Any]) -> None:
    """The mean loss in the log goes on from the last line, not from the checkpoint. (Trainer has just reset it.)"""
    trainer._tr_loss = torch.full_like(trainer._tr_loss, state["loss_since_log"])
    trainer._globalstep_last_logged = state["last_logged"]
