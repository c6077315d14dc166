"""Sets by name in a folder of the user's: $GAPO_DATA/hh/train.jsonl, $GAPO_DATA/polite/test.jsonl.gz, ...

A recipe that says `hh` is the same recipe on every machine, wherever the files lie.
"""

from __future__ import annotations

import os
from pathlib import Path

from gapo.errors import InputError, did_you_mean

VARIABLE = "GAPO_DATA"
ON_THE_HUB = {"hh": "Anthropic/hh-rlhf"}  # the same pairs under their public name
NAMES = ("hh", "llmbar", "polite")  # what our recipes and studies name


def data_folder() -> Path | None:
    """The folder of the user's sets, if one is named."""
    named = os.environ.get(VARIABLE)
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise InputError(f"{VARIABLE} names {folder}, which is no folder; it holds one for each set, like hh/")
    return folder


def local_set(name: str) -> Path | None:
    """The folder of a set that is there."""
    if name not in NAMES:
        return None
    folder = data_folder()
    found = folder / name if folder is not None else None
    return found if found is not None and found.is_dir() else None


def need_local(name: str) -> Path:
    """The folder of a set or task that must be there; what to do where it is not."""
    folder = data_folder()
    if folder is None:
        raise InputError(
            f"{name!r} is read from a folder of yours: put {name}/train.jsonl and {name}/test.jsonl into one and name "
            f"the folder in {VARIABLE}"
        )
    if not (folder / name).is_dir():
        there = [path.name for path in folder.iterdir() if path.is_dir()]
        raise InputError(f"{VARIABLE} ({folder}) has no folder {name!r}; {did_you_mean(name, there)}")
    return folder / name
