"""Pairs as a page carries them: light columns at once, texts, history and words in blocks that are opened one by one.

Each part is JSON, gzipped, in base64: letters that mean nothing in HTML, so no text of a pair can end its element.
"""

from __future__ import annotations

import gzip
import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import isfinite
from typing import Any

from gapo.report.figures import CLEAN_COLOUR, FLIPPED_COLOUR, SERIES
from gapo.report.markup import visible
from gapo.report.pair_view import PairColumn, PairHistory, PairText, PairView, Value
from gapo.report.pair_words import explanations

PAIRS_IN_BLOCK = 64
CHARACTERS_IN_BLOCK = 400_000  # a block opens in a few milliseconds
DIGITS = 6  # significant: more than anybody reads, a third of the room


@dataclass(frozen=True)
class PackedPairs:
    """`light` is read when the page opens, a block when one of its pairs is."""

    light: str
    blocks: tuple[str, ...]


def packed(view: PairView) -> PackedPairs:
    """Everything the explorer shows of these pairs."""
    _check(view)
    starts = list(_starts(view.texts, len(view.ids)))
    words = explanations(view)
    ends = [*starts[1:], len(view.ids)]
    blocks = [_block(view, words, start, end) for start, end in zip(starts, ends, strict=True)]
    return PackedPairs(pack(_light(view, starts)), tuple(pack(block) for block in blocks))


def pack(value: object) -> str:
    """A value as gzipped JSON in base64; the same value is the same letters."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return b64encode(gzip.compress(text.encode(), compresslevel=6, mtime=0)).decode()


def unpack(letters: str) -> Any:
    """What `pack` was given."""
    return json.loads(gzip.decompress(b64decode(letters)))


def short(value: Value) -> float | int | None:
    """A number to six significant digits; what is not finite is not known."""
    if value is None or isinstance(value, str) or not isfinite(value):
        return None
    rounded = float(f"{value:.{DIGITS}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def _light(view: PairView, starts: Sequence[int]) -> dict[str, object]:
    spelled = {i: visible(name) for i, name in enumerate(view.ids) if visible(name) != name}
    return {
        "ids": list(view.ids),
        "spelled": spelled,  # ids as they are shown, where that differs: an export must hold the true ones
        "columns": [_column(column) for column in view.columns],
        "across": view.across,
        "up": view.up,
        "colours": list(view.colours),
        "notes": [visible(note) for note in view.notes],
        "starts": list(starts),
        "texts": any(text is not None for text in view.texts),
        "palette": {"series": SERIES, "clean": CLEAN_COLOUR, "flipped": FLIPPED_COLOUR},
        "store": sha256("\n".join(view.ids).encode("utf-8", "surrogatepass")).hexdigest()[:16],
    }


def _column(column: PairColumn) -> dict[str, object]:
    head = {"key": column.key, "title": visible(column.title), "kind": column.kind, "note": visible(column.note)}
    if column.kind == "number":
        return {**head, "values": [short(value) for value in column.values]}
    if column.kind == "truth":
        return {**head, "values": [None if value is None else int(bool(value)) for value in column.values]}
    words = sorted({str(value) for value in column.values if value is not None})
    place = {word: k for k, word in enumerate(words)}
    values = [None if value is None else place[str(value)] for value in column.values]
    return {**head, "words": [visible(word) for word in words], "values": values}


def _block(view: PairView, words: Sequence[str], start: int, end: int) -> dict[str, object]:
    return {
        "texts": [_text(text) for text in view.texts[start:end]],
        "history": [_history(history) for history in view.history[start:end]],
        "words": list(words[start:end]),
    }


def _text(text: PairText | None) -> list[str] | None:
    return None if text is None else [visible(text.prompt), visible(text.chosen), visible(text.rejected)]


def _history(history: PairHistory | None) -> dict[str, object] | None:
    if history is None or len(history.steps) == 0:
        return None
    series = {key: [short(value) for value in values] for key, values in history.series.items()}
    return {"steps": [int(step) for step in history.steps], "series": series}


def _starts(texts: Sequence[PairText | None], pairs: int) -> Iterator[int]:
    """Where each block begins: after so many pairs, or so many characters."""
    held = room = 0
    for i in range(pairs):
        text = texts[i] if texts else None
        size = 0 if text is None else len(text.prompt) + len(text.chosen) + len(text.rejected)
        if i == 0 or held == PAIRS_IN_BLOCK or room + size > CHARACTERS_IN_BLOCK:
            yield i
            held = room = 0
        held, room = held + 1, room + size


def _check(view: PairView) -> None:
    """A view whose parts are not equally long would show one pair's numbers beside another's words."""
    sizes = {f"column {column.key}": len(column.values) for column in view.columns}
    sizes |= {name: len(part) for name, part in (("texts", view.texts), ("history", view.history)) if len(part)}
    wrong = [f"{name} has {size}" for name, size in sizes.items() if size != len(view.ids)]
    if wrong:
        raise ValueError(f"a view of {len(view.ids)} pairs needs as many values: {', '.join(wrong)}")
