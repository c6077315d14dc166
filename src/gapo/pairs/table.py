"""Rows on their way in: read by `readers.py`, found by `sources.py`, made into pairs by `formats.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from gapo.errors import InputError, did_you_mean
from gapo.pairs.pair import BadRow

Row = tuple[str, object] | BadRow  # where the row is and what it holds, or why it could not even be read
LONE_SPLIT = (None, "train")  # "train" is what Hugging Face calls the split of a lone file
LONGEST_ROW = 2**23  # bytes: two million tokens, more than any model reads; nested, it takes thirty times that to hold
ROW_IN_WORDS = f"{LONGEST_ROW // 2**20} MiB"
TOO_LONG = f"longer than {ROW_IN_WORDS}"
LONGEST_REASON = 200  # characters; some libraries answer a mistake with pages


@dataclass(frozen=True)
class Table:
    """Rows still to be read, and their columns where these are known before; `label` names the table in messages.

    `address` says what the rows are without reading them ("" where nobody knows); rows that are in memory have none.
    """

    label: str
    rows: Iterable[Row]
    columns: tuple[str, ...] | None = None
    address: Callable[[], str] | None = None


def numbered(label: str, rows: Iterable[object]) -> Iterator[Row]:
    return ((f"{label}:{number}", row) for number, row in enumerate(rows, start=1))


def pick_split(content: Mapping[str, object], split: str | None, label: str) -> object:
    """The rows in an object that names its splits; an object that is itself a pair is one row."""
    if "chosen" in content and "rejected" in content:
        return [content]
    for name in ("data", "train") if split in LONE_SPLIT else (split,):
        if name in content:
            return content[name]
    if not split and len(content) == 1:
        return next(iter(content.values()))
    wanted = split or "train"
    raise InputError(f"{label} has no split {wanted!r}; {did_you_mean(wanted, content) if content else 'it is empty'}")


def one_line(error: Exception) -> str:
    """What another library said, short enough for a sentence of ours."""
    first = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return first[:LONGEST_REASON].rstrip(".")
