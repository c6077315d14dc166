"""Which file is meant and of which kind it is; reading and saving go through here."""

from __future__ import annotations

import gzip
import os
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import IO, cast

from gapo.errors import DiskTrouble, InputError, did_you_mean
from gapo.pairs.opened import is_gz
from gapo.pairs.pair import PairSet
from gapo.pairs.readers import READERS
from gapo.pairs.store import SMALL_FILE, file_address
from gapo.pairs.table import Table
from gapo.pairs.writers import WRITERS
from gapo.storage import whole_file

TEXT_KINDS = ("jsonl", "json", "csv")
KINDS = (*TEXT_KINDS, "parquet")
KINDS_IN_WORDS = "a name ending in .jsonl, .json or .csv (each also with .gz), or .parquet"


def read_path(path: Path, split: str | None = None) -> Table:
    """The rows of a file, or of a folder with one file for each split."""
    return _read_folder(path, split) if path.is_dir() else _read_file(path, split)


def save_pairs(pairs: PairSet, path: str | os.PathLike[str]) -> None:
    """Write the pairs in the form the suffix asks for; `load_pairs` gives the same pairs back, ids and marks included.

    A reader, or a run that is killed half way, sees the old file or the new one and never a part of it.
    """
    path = Path(path).expanduser()
    write = WRITERS[kind_of(path)]
    try:
        with whole_file(path) as part, part.open("wb") as file:
            if is_gz(path):  # no name and no time inside, so that equal pairs give equal files
                with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
                    write(pairs, cast(IO[bytes], packed))
            else:
                write(pairs, file)
    except DiskTrouble:
        raise
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror or error}); choose another place") from None


def kind_of(path: Path) -> str:
    """jsonl, json, csv or parquet, from the suffix."""
    kind = _kind(path)
    if kind is None:
        raise InputError(f"{path} is of an unknown kind; use {KINDS_IN_WORDS}")
    return kind


def has_known_suffix(path: Path) -> bool:
    return _kind(path) is not None


def bare_name(path: Path) -> str:
    """`train` for train.jsonl.gz."""
    return Path(path.stem).stem if is_gz(path) else path.stem


def near_file(path: Path) -> str | None:
    """What the folder has instead of a file that is not there."""
    names = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    near = get_close_matches(path.name, names, n=1)
    return str(path.with_name(near[0])) if near else None


def _read_file(path: Path, split: str | None) -> Table:
    if not path.exists():
        near = near_file(path)
        missing = "check the path" if path.parent.is_dir() else f"nor does its folder {path.parent}; check the path"
        raise InputError(f"{path} does not exist; {f'did you mean {near!r}?' if near else missing}")
    if not path.is_file():  # a pipe would be waited for, and is read twice
        raise InputError(f"{path} is not a file; save what it holds in one")
    split = None if split == bare_name(path) else split
    table = READERS[kind_of(path)](path, split)
    if path.stat().st_size < SMALL_FILE:
        return table
    return replace(table, address=lambda: f"{kind_of(path)} {split} {file_address(path)}")


def _read_folder(folder: Path, split: str | None) -> Table:
    return _read_file(*split_of(folder, split))


def split_of(folder: Path, split: str | None) -> tuple[Path, str]:
    """The file of a split, and the split's name: unless named the training split, or the only file there is."""
    files = {bare_name(path): path for path in sorted(folder.iterdir()) if path.is_file() and has_known_suffix(path)}
    if not files:
        raise InputError(f"the folder {folder} holds no data file; it needs one for each split, like train.jsonl")
    wanted = split or (next(iter(files)) if len(files) == 1 else "train")
    if wanted not in files:
        raise InputError(f"the folder {folder} has no split {wanted!r}; {did_you_mean(wanted, files)}")
    return files[wanted], wanted


def _kind(path: Path) -> str | None:
    suffix = Path(path.stem).suffix if is_gz(path) else path.suffix
    kind = suffix.lower().removeprefix(".")
    return kind if kind in (TEXT_KINDS if is_gz(path) else KINDS) else None
