"""Where things are kept, and how a file appears: whole or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gapo.errors import disk_trouble


def cache_folder(*parts: str) -> Path:
    """A folder of gapo's cache: $GAPO_CACHE, else gapo under the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    root = Path(os.environ.get("GAPO_CACHE") or Path(base) / "gapo")
    return root.joinpath(*parts)


def embedded(*parts: str) -> Path:
    """A file or folder that ships with the package."""
    return Path(__file__).parent.joinpath(*parts)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """What the body meets on a full or read-only disk becomes one sentence with this path."""
    try:
        yield
    except Exception as error:
        if (trouble := disk_trouble(error, path)) is not None:
            raise trouble from error
        raise


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Write to the yielded path; it becomes `path` at the end, and leaves no trace after an error.

    It is on the disk before it has its name, so that a power cut too leaves the old file or the new one.
    """
    path = Path(path)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        os.close(handle)
        part = Path(name)
        try:
            yield part
            part.chmod(0o666 & ~_umask())  # mkstemp makes files only the owner can read
            on_disk(part)
            part.replace(path)
            on_disk(path.parent)
        finally:
            part.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Fill the yielded folder; it becomes `path` at the end, and leaves no trace after an error."""
    path = Path(path)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part"))
        try:
            yield part
            part.chmod(0o777 & ~_umask())
            part.replace(path)
            on_disk(path.parent)
        finally:
            shutil.rmtree(part, ignore_errors=True)


def on_disk(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on the disk (where the system can tell)."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:  # Windows opens no folders
        return
    try:
        os.fsync(handle)
    except OSError:  # some network file systems know no fsync of folders
        pass
    finally:
        os.close(handle)


def is_part(path: Path) -> bool:
    """Whether this is what `whole_file` or `whole_folder` was writing when it was killed."""
    return path.name.startswith(".") and path.name.endswith(".part")


def clear_parts(folder: Path) -> None:
    """Remove what was half-written in a folder that nobody writes to now."""
    for path in filter(is_part, folder.iterdir() if folder.is_dir() else ()):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
