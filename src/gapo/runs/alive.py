"""Whether a run is at work: its first process holds a lock on recipe.yaml, which the system lifts however it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

RECIPE = "recipe.yaml"


@contextmanager
def at_work(folder: Path, holds: bool = True) -> Iterator[None]:
    """Hold the lock while a run works; where the file system knows no locks, nobody can be told."""
    if not holds:
        yield
        return
    with open(folder / RECIPE, "rb") as file:
        _lock(file, shared=True)
        yield


def is_at_work(folder: Path) -> bool | None:
    """Whether a process holds the lock; None where that cannot be known."""
    try:
        with open(folder / RECIPE, "rb") as file:
            free = _lock(file, shared=False)
    except OSError:
        return None
    return None if free is None else not free


def _lock(file: IO[bytes], *, shared: bool) -> bool | None:
    """Whether the lock was got. It ends with the file, and by itself when the process does."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True
