"""Where things are kept, and how a file appears: whole or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder(*parts: str) -> Path:
    """A folder of gapo's cache: $GAPO_CACHE, else gapo under the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    root = Path(os.environ.get("GAPO_CACHE") or Path(base) / "gapo")
    return root.joinpath(*parts)


def embedded(*parts: str) -> Path:
    """A file or folder that ships with the package."""
    return Path(__file__).parent.joinpath(*parts)


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Write to the yielded path; it becomes `path` at the end, and leaves no trace after an error."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    os.close(handle)
    part = Path(name)
    try:
        yield part
        part.chmod(0o666 & ~_umask())  # mkstemp makes files only the owner can read
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Fill the yielded folder; it becomes `path` at the end, and leaves no trace after an error."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part"))
    try:
        yield part
        part.chmod(0o777 & ~_umask())
        part.replace(path)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
