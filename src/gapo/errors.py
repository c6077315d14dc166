"""What we say when the input is wrong: one sentence with the way out."""

import errno
import os
import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

WHY_NOT = {
    errno.ENOSPC: "cannot be written: the disk is full; make room there",
    errno.EDQUOT: "cannot be written: your share of the disk is used up; make room there",
    errno.EFBIG: "cannot be written: files so large are not allowed here; raise the limit (ulimit -f)",
    errno.EROFS: "cannot be written: the disk is read-only; choose another place",
    errno.EACCES: "cannot be used: permission is denied; choose another place, or change who may write there",
    errno.EPERM: "cannot be used: this is not permitted; choose another place, or change who may write there",
    errno.EIO: "cannot be written: the disk is full or failing; make room there",
    errno.EEXIST: "cannot be written: a file stands where a folder is needed; choose another place",
    errno.ENOTDIR: "cannot be written: a file stands where a folder is needed; choose another place",
    errno.EISDIR: "cannot be written: a folder has this name; choose another one",
    errno.ENAMETOOLONG: "cannot be written: the name is too long; choose a shorter one",
}

LONGEST_SHOWN = 80  # characters of a value that a sentence quotes
MOST_NAMES, LONGEST_NAME = 24, 40  # that a sentence lists; data may name its splits and columns anything


class InputError(ValueError):
    """The user's input is wrong. The message is the whole story: what, where, and what to do.

    It is one line, whatever the names in it are: a file or a key may be called anything.
    """

    def __init__(self, *message: Any) -> None:
        super().__init__(*(_one_line(part) if isinstance(part, str) else part for part in message))


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


class DiskTrouble(OSError, InputError):
    """The disk does not take a file. Made like every OSError: errno, its words, the path."""

    def __str__(self) -> str:
        return f"{self.filename or 'a file'} {WHY_NOT[self.errno or errno.EIO]}, then give the same command again"


class TrainingStopped(RuntimeError):
    """Training cannot go on (a non-finite number, for instance). The message names step and pairs, at most five.

    `pairs` are the ids of all that are to blame; none where it is not known which.
    """

    def __init__(self, message: str, step: int | None = None, pairs: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.step = step
        self.pairs = list(pairs)


class Interrupted(KeyboardInterrupt):
    """A signal asked us to leave. `checkpoint` is what was saved for it, if anything."""

    def __init__(self, number: int, checkpoint: Path | None = None) -> None:
        super().__init__(number)
        self.number, self.checkpoint = number, checkpoint


def shown(value: object) -> str:
    """A value as a sentence quotes it."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 3]}..."


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The tail of an error about an unknown name: the nearest one, or everything there is."""
    options = sorted(known)
    near = get_close_matches(name[:LONGEST_SHOWN], options, n=1, cutoff=0.6)
    if near:
        return f"did you mean {shown(near[0])}?"
    more = f" and {len(options) - MOST_NAMES} more" if len(options) > MOST_NAMES else ""
    return f"known: {', '.join(name[:LONGEST_NAME] for name in options[:MOST_NAMES])}{more}"


def disk_trouble(error: BaseException, path: str | os.PathLike[str] | None = None) -> DiskTrouble | None:
    """The error of a full or read-only disk, whichever library met it, as one that names the path; else None."""
    if isinstance(error, InputError):
        return None
    number = _errno_of(error)
    if number not in WHY_NOT:
        return disk_trouble(error.__cause__, path) if error.__cause__ is not None else None
    return DiskTrouble(number, os.strerror(number), str(path or getattr(error, "filename", None) or "") or None)


def _errno_of(error: BaseException) -> int | None:
    if isinstance(error, OSError):
        return error.errno
    text = str(error)
    if found := re.search(r"\(os error (\d+)\)", text):  # safetensors and tokenizers, which are written in Rust
        return int(found[1])
    if isinstance(error, RuntimeError) and ("inline_container.cc" in text or "iostream error" in text):
        return errno.EIO  # torch.save keeps the reason to itself
    return None
