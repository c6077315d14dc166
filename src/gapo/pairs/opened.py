"""A data file, opened: packed or not, in bytes or in text, and one sentence where it cannot be read."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, AnyStr, cast

from gapo.errors import InputError
from gapo.pairs.table import LONE_SPLIT, LONGEST_ROW, one_line


def is_gz(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def need_lone_split(path: Path, split: str | None) -> None:
    """Asked for the test split, we must not hand out a file that holds something else."""
    if split not in LONE_SPLIT:
        raise InputError(
            f"{path} is one file without splits, so it has no {split!r}; give the path of that split's file"
        )


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """A file that breaks off or is something else is one sentence, not a traceback."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InputError(f"{path} is not a whole gzip file; copy or compress it again") from None
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror or one_line(error)}); check or copy it again"
        ) from None


def open_binary(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path, "rb")) if is_gz(path) else path.open("rb")


def open_text(path: Path) -> IO[str]:
    opener = gzip.open if is_gz(path) else open
    return cast(IO[str], opener(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline=""))


def skip_line(file: IO[AnyStr], begun: AnyStr) -> None:
    """Read to the end of a line without keeping it."""
    newline = begun[:0] + ("\n" if isinstance(begun, str) else b"\n")  # type: ignore[operator]
    while begun and not begun.endswith(newline):
        begun = file.readline(LONGEST_ROW)
