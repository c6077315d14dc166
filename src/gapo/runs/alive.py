"""Who works in a folder: one process at a time holds its lock, which the system lifts however that process ends."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from gapo.errors import InputError
from gapo.storage import writing

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from gapo.model.ranks import Ranks

LOCK = ".lock"  # says who holds it; a file that nobody holds is what a killed process left
PATIENCE = 3.0  # seconds: children of a killed process may hold its lock for a moment longer


@contextmanager
def at_work(folder: Path, ranks: Ranks | None = None) -> Iterator[None]:
    """Hold the folder's lock, as the first rank; where another holds it, nobody gets in.

    Where the file system knows no locks, nobody can be told.
    """
    held: list[IO[bytes]] = []
    new = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        if ranks is None:
            held.append(_taken(folder))
        else:
            ranks.first_decides(lambda: held.append(_taken(folder)))
        yield
    finally:
        for file in held:
            (folder / LOCK).unlink(missing_ok=True)
            file.close()
        with suppress(OSError):  # what was refused before anything was written leaves no empty folder behind
            for place in new if held or ranks is None else []:
                place.rmdir()


def is_at_work(folder: Path) -> bool | None:
    """Whether a process holds the lock; None where that cannot be known."""
    try:
        with open(folder / LOCK, "rb") as file:
            free = _lock(file)
    except FileNotFoundError:
        return False if fcntl is not None else None
    except OSError:
        return None
    return None if free is None else not free


def refuse_held(folder: Path) -> None:
    """One sentence where another process is at work here."""
    if is_at_work(folder):
        raise InputError(_held(folder))


def _taken(folder: Path) -> IO[bytes]:
    """The lock's file, locked, with our name in it."""
    until = time.monotonic() + PATIENCE
    with writing(folder / LOCK):
        folder.mkdir(parents=True, exist_ok=True)
        while True:
            file = open(folder / LOCK, "ab", buffering=0)  # noqa: SIM115 - it stays open as long as the lock is held
            if _lock(file) is not False and _is_still_there(file, folder / LOCK):
                try:
                    file.truncate(0)
                    file.write(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode())
                except OSError:  # a full disk: a lock without a name is none
                    (folder / LOCK).unlink(missing_ok=True)
                    file.close()
                    raise
                return file
            file.close()
            if time.monotonic() > until:
                raise InputError(_held(folder))
            time.sleep(0.1)


def _is_still_there(file: IO[bytes], path: Path) -> bool:
    """Whether the file we locked has its name yet: who held it before may just have removed it."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _held(folder: Path) -> str:
    try:
        holder = json.loads((folder / LOCK).read_text(encoding="utf-8"))
        who = f"process {holder['pid']} on {holder['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        who = "another process"
    return f"{who} is at work in {folder}; wait until it has ended, or choose another folder"


def _lock(file: IO[bytes]) -> bool | None:
    """Whether the lock was got. It ends with the file, and by itself when the process does."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True
