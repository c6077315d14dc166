"""Which checkpoints are whole: a list of a checkpoint's files, with size and digest, is written last.

A kill can come between any two bytes. A folder without its list, or with files that are not as listed, is half-written.
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

from gapo.storage import LIST as MANIFEST
from gapo.storage import listed_files, on_disk, whats_damaged, write_list

logger = logging.getLogger("gapo")
FOLDER = "checkpoints"
PREFIX = "checkpoint-"
NEEDED = ("trainer_state.json", "scheduler.pt", "gapo.json")  # else the run cannot go on as it would have


def seal(folder: Path) -> None:
    """List every file of a complete checkpoint; with the list it is whole."""
    write_list(folder)
    on_disk(folder.parent)


def whats_missing(folder: Path) -> str | None:
    """Why the checkpoint is not whole, in words; None if it is."""
    if (damage := whats_damaged(folder)) is not None:
        return damage
    listed = listed_files(folder) or {}
    lacking = [name for name in NEEDED if name not in listed]
    return f"it was saved without {lacking[0]}" if lacking else None


def newest_whole(folder: Path) -> Path | None:
    """The newest whole checkpoint in this folder; each newer one that is not whole is skipped with a word."""
    for path in reversed(in_order(folder)):
        problem = whats_missing(path)
        if problem is None:
            return path
        logger.warning("%s is not whole and is skipped: %s", path, problem)
    return None


def in_order(folder: Path) -> list[Path]:
    """Checkpoints by step, whole or not."""
    found = [path for path in folder.glob(f"{PREFIX}*") if path.name.removeprefix(PREFIX).isdigit() and path.is_dir()]
    return sorted(found, key=_step)


def rotate(folder: Path, newest: Path, limit: int | None, keep: Path | None) -> None:
    """Delete old checkpoints beyond the limit, now that `newest` is whole; `keep` (the best one) stays too.

    A half-written checkpoint counts for nothing and goes first. The list goes before the files, so that a kill in
    between leaves a folder that says it is not whole.
    """
    if not limit or limit < 0:
        return
    spared = {path.resolve() for path in (newest, keep) if path is not None and path.is_dir()}
    others = [path for path in in_order(folder) if path.resolve() not in spared]
    half = [path for path in others if listed_files(path) is None]
    whole = [path for path in others if path not in half]
    room = max(0, limit - len(spared))
    for path in half + whole[: len(whole) - room]:
        remove(path)


def remove(checkpoint: Path) -> None:
    """Delete a checkpoint; at no moment does it look whole without being so."""
    (checkpoint / MANIFEST).unlink(missing_ok=True)
    shutil.rmtree(checkpoint, ignore_errors=True)


def set_aside(folder: Path) -> None:
    """An earlier run's checkpoints become `checkpoints.1` (or the next free number): a new run must not resume them."""
    if not in_order(folder):
        return
    number = 1
    while (aside := folder.with_name(f"{folder.name}.{number}")).exists():
        number += 1
    folder.rename(aside)


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix(PREFIX))
