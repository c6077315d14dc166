"""Which checkpoints are whole: a list of a checkpoint's files, with size and digest, is written last.

A kill can come between any two bytes. A folder without its list, or with files that are not as listed, is half-written.
"""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

from gapo.storage import on_disk, sha256, whole_file

logger = logging.getLogger("gapo")
MANIFEST = "files.json"
FOLDER = "checkpoints"
PREFIX = "checkpoint-"
NEEDED = ("trainer_state.json", "scheduler.pt", "gapo.json")  # else the run cannot go on as it would have


def seal(folder: Path) -> None:
    """List every file of a complete checkpoint; with the list it is whole."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path != folder / MANIFEST]
    for path in files:
        on_disk(path)
    for path in {path.parent for path in files}:
        on_disk(path)
    listed = {
        path.relative_to(folder).as_posix(): {"size": path.stat().st_size, "sha256": sha256(path)} for path in files
    }
    with whole_file(folder / MANIFEST) as part:
        part.write_text(json.dumps({"files": listed}, indent=1) + "\n")
    on_disk(folder.parent)


def whats_missing(folder: Path) -> str | None:
    """Why the checkpoint is not whole, in words; None if it is."""
    listed = _listed(folder)
    if listed is None:
        return f"its list {MANIFEST} is missing or cut short"
    for name, expected in listed.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if (size := path.stat().st_size) != expected["size"]:
            return f"{name} has {size} of {expected['size']} bytes"
    for name, expected in listed.items():  # sizes first: they cost nothing
        if sha256(folder / name) != expected["sha256"]:
            return f"{name} has not the bytes that were written"
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
    half = [path for path in others if _listed(path) is None]
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


def _listed(folder: Path) -> dict[str, dict[str, object]] | None:
    try:
        return dict(json.loads((folder / MANIFEST).read_text())["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix(PREFIX))
