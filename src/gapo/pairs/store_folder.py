"""A folder of columns on disk: written once, whole or not at all, and read through memory maps by many processes."""

from __future__ import annotations

import json
import logging
import mmap
import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gapo.storage import take_the_place

FORMAT = 2
META = "meta.json"
ENDS = ".ends"  # a ragged column is its values, and where each of its parts ends
CHECKED_AT_ONCE = 2**22  # bytes
ABANDONED_AFTER = 24 * 3600  # seconds without a write: what a killed process left behind

logger = logging.getLogger("gapo")


class StoreDamaged(Exception):
    """A store is there but not as it was written; the message says what is wrong."""


class StoreWriter:
    """Appends to the columns of a store that is not there yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.facts: dict[str, Any] = {}
        self._files: dict[str, IO[bytes]] = {}
        self._columns: dict[str, dict[str, Any]] = {}
        self._ends: dict[str, int] = {}
        self._open = ExitStack()

    def column(self, name: str, dtype: str) -> None:
        """A new column of numbers; types are written with their byte order."""
        self._files[name] = self._open.enter_context((self.folder / f"{name}.bin").open("wb"))
        self._columns[name] = {"dtype": np.dtype(dtype).newbyteorder("<").str, "count": 0, "crc32": 0}

    def ragged(self, name: str, dtype: str) -> None:
        """A new column whose parts have different lengths."""
        self.column(name, dtype)
        self.column(name + ENDS, "i8")
        self._ends[name] = 0

    def add(self, name: str, values: NDArray[Any] | Sequence[int]) -> None:
        column = self._columns[name]
        array = np.ascontiguousarray(values, dtype=column["dtype"])
        self._write(name, array.data.cast("B") if array.size else b"", array.size)

    def add_parts(self, name: str, values: NDArray[Any] | bytes, lengths: NDArray[Any] | Sequence[int]) -> None:
        """Parts one after the other, and the length of each."""
        if isinstance(values, bytes):
            self._write(name, values, len(values))
        else:
            self.add(name, values)
        ends = self._ends[name] + np.cumsum(np.asarray(lengths, dtype=np.int64))
        self._ends[name] = int(ends[-1]) if len(ends) else self._ends[name]
        self.add(name + ENDS, ends)

    def _write(self, name: str, content: bytes | memoryview, count: int) -> None:
        self._files[name].write(content)
        column = self._columns[name]
        column["crc32"] = zlib.crc32(content, column["crc32"])
        column["count"] += count

    def flush(self) -> None:
        """What was added can be read from the files."""
        for file in self._files.values():
            file.flush()

    def finish(self) -> None:
        """Everything on disk; what makes it a store comes last."""
        self._open.close()
        meta = {"format": FORMAT, "columns": self._columns, "facts": self.facts}
        meta["crc32"] = _crc32_of(meta)
        (self.folder / META).write_text(json.dumps(meta), encoding="utf-8")

    def close(self) -> None:
        self._open.close()


class Store:
    """A whole store, open for reading. It is small to send to another process: there it is opened anew."""

    def __init__(self, path: Path | str, *, verify: bool = False) -> None:
        self.path = Path(path)
        self._meta = _read_meta(self.path)
        self._maps: dict[str, NDArray[Any]] = {}
        for name, column in self._meta["columns"].items():
            _check_column(self.path / f"{name}.bin", column, verify)

    def __reduce__(self) -> tuple[type[Store], tuple[Path]]:
        return Store, (self.path,)

    @property
    def facts(self) -> Mapping[str, Any]:
        facts: Mapping[str, Any] = self._meta["facts"]
        return facts

    def count(self, name: str) -> int:
        return int(self._meta["columns"][name]["count"])

    def column(self, name: str) -> NDArray[Any]:
        """The column as an array whose pages are read from disk when they are touched."""
        if name not in self._maps:
            column = self._meta["columns"][name]
            if not column["count"]:
                return np.empty(0, dtype=column["dtype"])
            with (self.path / f"{name}.bin").open("rb") as file:
                pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self._maps[name] = np.frombuffer(pages, dtype=column["dtype"])
        return self._maps[name]

    def read(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """A stretch of a column as memory of its own: a long scan then leaves nothing behind."""
        dtype = np.dtype(self._meta["columns"][name]["dtype"])
        path = self.path / f"{name}.bin"
        found = np.fromfile(path, dtype=dtype, count=stop - start, offset=start * dtype.itemsize)
        if len(found) != stop - start:
            raise StoreDamaged(f"{path} is shorter than it was")
        return found


def open_store(path: Path) -> Store | None:
    """The store at this place, checked byte for byte; None where there is none, and a word where it is damaged."""
    if not path.is_dir():
        return None
    try:
        return Store(path, verify=True)
    except (StoreDamaged, OSError) as problem:
        logger.warning("the cached pairs in %s are damaged (%s) and are made again", path, problem)
        return None


@contextmanager
def new_store(folder: Path) -> Iterator[StoreWriter]:
    """A writer below this folder. `publish` makes it a store; without that it leaves no trace."""
    folder.mkdir(parents=True, exist_ok=True)
    _sweep(folder)
    part = Path(tempfile.mkdtemp(dir=folder, prefix=".", suffix=".part"))
    writer = StoreWriter(part)
    try:
        with closing(writer):  # on a full disk, closing is one more write that fails
            yield writer
    finally:
        shutil.rmtree(part, ignore_errors=True)


def publish(writer: StoreWriter, path: Path) -> Store:
    """The finished store under its own name. Where another process was first, its store serves both."""
    writer.finish()
    writer.folder.chmod(0o755)  # mkdtemp makes folders only the owner can read
    try:
        writer.folder.rename(path)
    except OSError:
        if (theirs := _whole(path)) is not None:
            return theirs
        take_the_place(writer.folder, path)
    return Store(path)


def _whole(path: Path) -> Store | None:
    try:
        return Store(path, verify=True)
    except (StoreDamaged, OSError):
        return None


def _sweep(folder: Path) -> None:
    """Remove what killed processes left half written."""
    now = time.time()
    for part in folder.glob(".*.part"):
        try:
            newest = max(entry.stat().st_mtime for entry in (part, *part.iterdir()))
        except OSError:  # gone by now
            continue
        if now - newest > ABANDONED_AFTER:
            shutil.rmtree(part, ignore_errors=True)


def _read_meta(path: Path) -> dict[str, Any]:
    try:
        meta: dict[str, Any] = json.loads((path / META).read_text(encoding="utf-8"))
        if meta["format"] != FORMAT:
            raise StoreDamaged(f"its format is {meta['format']}, not {FORMAT}")
        if meta.pop("crc32") != _crc32_of(meta):
            raise StoreDamaged(f"{META} has other bytes than were written")
        if not isinstance(meta["columns"], dict) or not isinstance(meta["facts"], dict):
            raise StoreDamaged(f"{META} is not whole")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreDamaged(f"{META} cannot be read ({type(error).__name__})") from None
    return meta


def _check_column(path: Path, column: Mapping[str, Any], verify: bool) -> None:
    """The size always; every byte where asked for (about a second a gigabyte)."""
    size = column["count"] * np.dtype(column["dtype"]).itemsize
    try:
        found = os.stat(path).st_size
        if found != size:
            raise StoreDamaged(f"{path.name} has {found} bytes, not {size}")
        if verify and _crc32(path) != column["crc32"]:
            raise StoreDamaged(f"{path.name} has other bytes than were written")
    except OSError as error:
        raise StoreDamaged(f"{path.name}: {error.strerror}") from None


def _crc32_of(meta: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(meta, sort_keys=True).encode())


def _crc32(path: Path) -> int:
    found = 0
    with path.open("rb", buffering=0) as file:
        while block := file.read(CHECKED_AT_ONCE):
            found = zlib.crc32(block, found)
    return found
