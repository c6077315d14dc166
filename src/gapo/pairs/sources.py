"""What a person may name as a source of pairs: a path, an embedded set, a set on the Hub, or rows in memory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gapo.errors import InputError, did_you_mean, shown
from gapo.pairs.files import bare_name, has_known_suffix, near_file, read_path, split_of
from gapo.pairs.hub import hub_as_it_is
from gapo.pairs.judges_wheel import NAME as JUDGES
from gapo.pairs.judges_wheel import judges_table
from gapo.pairs.local_sets import NAMES as LOCAL
from gapo.pairs.local_sets import ON_THE_HUB, local_set, need_local
from gapo.pairs.pair import PairSet
from gapo.pairs.rows import COLUMNS
from gapo.pairs.table import Table, numbered, one_line, pick_split
from gapo.storage import embedded

PairSource = str | os.PathLike[str] | PairSet | Mapping[str, Any] | Iterable[Mapping[str, Any]]

EMBEDDED = embedded("data")  # one folder for each set, one file for each split
_HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def open_source(source: PairSource, split: str | None = None) -> tuple[str, Table]:
    """A name for the set, and its rows, still unread."""
    if isinstance(source, str | os.PathLike):
        try:
            return _open_named(source, split) if isinstance(source, str) else _open_path(Path(source), split)
        except OSError as error:  # a name that is too long, a folder that may not be looked into
            raise InputError(
                f"{shown(str(source))} cannot be read ({error.strerror or error}); check the path"
            ) from None
    rows = pick_split(source, split, "the data set") if isinstance(source, Mapping) else source
    if isinstance(rows, str | bytes) or not isinstance(rows, Iterable):
        raise InputError(f"cannot read pairs from {type(source).__name__}; give a path, a data set or a list of rows")
    return "pairs", _memory_table("dataset" if hasattr(rows, "column_names") else "rows", rows)


def _open_path(path: Path, split: str | None) -> tuple[str, Table]:
    path = path.expanduser()
    return bare_name(path), read_path(path, split)


def embedded_names() -> tuple[str, ...]:
    """The sets that come with the package."""
    return tuple(sorted(entry.name for entry in EMBEDDED.glob("*/") if _splits(entry)))


def file_of(words: str, split: str | None = None) -> Path | None:
    """The file that `open_source` reads, where it reads one."""
    name, _, named_split = words.partition(":")
    if name in embedded_names():
        return _splits(EMBEDDED / name).get(split or named_split or "train")
    start, _, end = words.rpartition(":")
    for text, part in ((words, split), (start, split or end)):
        path = Path(text).expanduser()
        if text and path.exists():
            return split_of(path, part)[0] if path.is_dir() else path
    return None


def _open_named(words: str, split: str | None) -> tuple[str, Table]:
    name, _, named_split = words.partition(":")
    if name in embedded_names():  # before any path: a folder of the same name is written ./name
        return words, _embedded_table(name, split or named_split or "train")
    if name == JUDGES:
        return words, judges_table(split or named_split or "train")
    if (folder := local_set(name)) is not None:
        return words, read_path(folder, split or named_split or None)
    return _open_elsewhere(words, name, named_split, split)


def _open_elsewhere(words: str, name: str, named_split: str, split: str | None) -> tuple[str, Table]:
    """A path, or a set on the Hub."""
    path = Path(words).expanduser()
    if path.exists() or has_known_suffix(path):
        return bare_name(path), read_path(path, split)
    start, _, end = words.rpartition(":")
    if start and Path(start).expanduser().exists():
        return bare_name(Path(start)), read_path(Path(start).expanduser(), split or end)
    hub_name = ON_THE_HUB.get(name, name)
    if _HUB_ID.fullmatch(hub_name):
        return name, _hub_table(hub_name, split or named_split or "train", near_file(path))
    if name in LOCAL:
        need_local(name)
    raise InputError(_unknown(words, name, path))


def _unknown(words: str, name: str, path: Path) -> str:
    near = near_file(path)
    if near:
        return f"{words} does not exist; did you mean {near!r}?"
    if path.name != words:
        return f"{words} does not exist; check the path"
    known = embedded_names()
    hint = did_you_mean(name, (*known, JUDGES, *LOCAL)) if known else "no set comes with this installation"
    return f"unknown data set {words!r}; {hint} (or give a path, or a Hugging Face id like org/name)"


def _embedded_table(name: str, split: str) -> Table:
    splits = _splits(EMBEDDED / name)
    if split not in splits:
        raise InputError(f"the embedded set {name!r} has no split {split!r}; {did_you_mean(split, splits)}")
    return replace(read_path(splits[split]), address=None)  # small, and never changed


def _splits(folder: Path) -> dict[str, Path]:
    return {bare_name(path): path for path in folder.glob("*.*") if has_known_suffix(path)}


def _hub_table(name: str, split: str, near: str | None) -> Table:
    import datasets  # here, because it takes a second and most sources do not need it

    try:
        with hub_as_it_is():
            return _memory_table(name, datasets.load_dataset(name, split=split))
    except Exception as error:  # the Hub, its cache and its builders fail in many ways; to the reader they are one
        way_out = (
            f"did you mean {near!r}?" if near else "check name, split and network, or give a path to your own file"
        )
        raise InputError(
            f"could not fetch {name!r}, split {split!r}, from Hugging Face ({one_line(error)}); {way_out}"
        ) from None


def _memory_table(label: str, rows: Any) -> Table:
    """Rows of a list, or of a data set of `datasets`, which gives itself away without loading the package."""
    if not hasattr(rows, "column_names"):
        return Table(label, numbered(label, rows))
    columns = rows.column_names  # None where a stream has not told them yet
    wanted = rows if columns is None else rows.select_columns([name for name in columns if name in COLUMNS])
    print_of = getattr(rows, "_fingerprint", None)
    return Table(
        label,
        numbered(label, wanted),
        None if columns is None else tuple(columns),
        address=lambda: f"dataset {print_of} {len(rows)}" if print_of else "",
    )
