"""Where things are kept, and how a file appears: whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gapo.errors import disk_trouble

LIST = "files.json"  # of a folder: name, size and digest of every other file in it


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
    """Fill the yielded folder; it becomes `path` at the end, and leaves no trace after an error.

    A folder that is there already gives way as a whole: its files and the new ones are never mixed.
    """
    path = Path(path)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part"))
        try:
            yield part
            part.chmod(0o777 & ~_umask())
            for file in filter(Path.is_file, part.rglob("*")):
                on_disk(file)
            take_the_place(part, path)
            on_disk(path.parent)
        finally:
            shutil.rmtree(part, ignore_errors=True)


def take_the_place(part: Path, path: Path) -> None:
    """A finished folder gets its name; one that has the name goes, as a whole."""
    if not path.is_dir():
        part.replace(path)
        return
    aside = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part"))
    try:
        path.replace(aside / path.name)
        try:
            part.replace(path)
        except OSError:
            (aside / path.name).replace(path)
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def add_line(path: Path, line: str) -> None:
    """A line more at the end of a log. A kill or a full disk can cut it short; it never spoils the next one."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "ab") as file:
            start = b"" if _ends_a_line(path) else b"\n"
            file.write(start + line.encode("utf-8", "replace") + b"\n")


def _ends_a_line(path: Path) -> bool:
    with open(path, "rb") as file:
        if not file.seek(0, os.SEEK_END):
            return True
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"


def on_disk(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on the disk (where the system can tell)."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:  # Windows opens no folders
        return
    try:
        os.fsync(handle)
    except OSError as error:  # some network file systems know no fsync of folders, others learn only now of a full disk
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
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


def write_list(folder: Path) -> None:
    """List every file of a complete folder, now on the disk; with the list it is whole."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path != folder / LIST]
    for path in files:
        on_disk(path)
    for path in {path.parent for path in files}:
        on_disk(path)
    listed = {
        path.relative_to(folder).as_posix(): {"size": path.stat().st_size, "sha256": sha256(path)} for path in files
    }
    with whole_file(folder / LIST) as part:
        part.write_text(json.dumps({"files": listed}, indent=1) + "\n")


def listed_files(folder: Path) -> dict[str, dict[str, object]] | None:
    """What the folder's list says; None where there is none, or half of one, or one that is damaged."""
    try:
        listed = dict(json.loads((folder / LIST).read_text())["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    sound = all(isinstance(each, dict) and set(each) == {"size", "sha256"} for each in listed.values())
    return listed if sound else None


def whats_damaged(folder: Path) -> str | None:
    """In what the folder is not as its list says, in words; None if it is."""
    listed = listed_files(folder)
    if listed is None:
        return f"its list {LIST} is missing or cut short"
    for name, expected in listed.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if (size := path.stat().st_size) != expected["size"]:
            return f"{name} has {size} of {expected['size']} bytes"
    for name, expected in listed.items():  # sizes first: they cost nothing
        if sha256(folder / name) != expected["sha256"]:
            return f"{name} has not the bytes that were written"
    return None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
