"""Rows become pairs one at a time: few stay in memory, many go to a store in the cache, found again by content."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from gapo.errors import InputError
from gapo.pairs.pair import BadRow, PreferencePair
from gapo.pairs.rows import parse_row
from gapo.pairs.store_folder import FORMAT, Store, new_store, open_store, publish
from gapo.pairs.stored_text import StoredBadRows, StoredPairs, TextWriter, written_ids
from gapo.pairs.table import Table
from gapo.storage import cache_folder, sha256, whole_file

READING = 1  # raised when the same file would give other pairs than before
STORED_FROM = 20_000  # pairs: below, a set in memory is as quick and leaves nothing in the cache
SMALL_FILE = 2**16  # bytes: not worth a digest
SETTLED = 2  # seconds: a file that has just changed may change again within one tick of its clock

logger = logging.getLogger("gapo")


class CannotKeep(Exception):
    """The cache cannot be written; the message says why."""


@dataclass(frozen=True)
class Found:
    """What reading a table gave."""

    pairs: Sequence[PreferencePair]
    bad_rows: Sequence[BadRow]
    columns: tuple[str, ...]


def kept_in_memory(cache: str | bool) -> int | None:
    """How many pairs stay in memory before a set goes to disk; None where nothing goes to disk."""
    choices = {"auto": STORED_FROM, "true": 0, "false": None}
    if str(cache).lower() not in choices:
        raise InputError(f"cache_tokens must be auto, true or false, not {cache!r}")
    return choices[str(cache).lower()]


def read_pairs(table: Table, limit: int | None, cache: str | bool) -> Found:
    """The pairs of a table and the rows that are none, from the cache where they are already there."""
    memory = kept_in_memory(cache)
    reading = Reading(table, limit)
    if table.address is None or memory is None or (limit is not None and limit <= memory):
        return _in_memory(list(reading), reading.columns)
    address = table.address()
    path = _place(f"{address} {table.label} {limit} {READING}") if address else None
    if path is not None and (store := open_store(path)) is not None:
        return _opened(store)
    first: list[PreferencePair | BadRow] = []
    for row in reading:
        first.append(row)
        if len(first) > memory:
            return _opened(_stored(first, reading, path))
    return _in_memory(first, reading.columns)


class Reading:
    """Iterates over what each row is, up to `limit` pairs; `columns` are those of the first row where none are told."""

    def __init__(self, table: Table, limit: int | None) -> None:
        self.columns = table.columns or ()
        self._rows = self._parsed(table, limit)

    def __iter__(self) -> Iterator[PreferencePair | BadRow]:
        return self._rows

    def _parsed(self, table: Table, limit: int | None) -> Iterator[PreferencePair | BadRow]:
        pairs = 0
        for row in table.rows:
            if not self.columns and not isinstance(row, BadRow) and isinstance(row[1], Mapping):
                self.columns = tuple(row[1])  # only to say what was there, should no row be a pair
            parsed = row if isinstance(row, BadRow) else parse_row(row[1], row[0])
            yield parsed
            pairs += isinstance(parsed, PreferencePair)
            if pairs == limit:
                return


def _in_memory(rows: Sequence[PreferencePair | BadRow], columns: tuple[str, ...]) -> Found:
    pairs = tuple(row for row in rows if isinstance(row, PreferencePair))
    return Found(pairs, tuple(row for row in rows if isinstance(row, BadRow)), columns)


def _stored(first: Sequence[PreferencePair | BadRow], reading: Reading, path: Path | None) -> Store:
    """Everything in a new store; rows that have no address of their own are kept under what they say."""
    try:
        with new_store(cache_folder("pairs")) as writer:
            text = TextWriter(writer)
            for row in chain(first, reading):
                text.add(row)
            text.flush()
            writer.flush()
            text.finish(written_ids(writer))
            writer.facts["columns"] = list(reading.columns)
            return publish(writer, path or _place(f"content {text.everything}"))
    except OSError as error:
        raise CannotKeep(str(error.strerror or error)) from None


def _opened(store: Store) -> Found:
    return Found(StoredPairs.whole(store), StoredBadRows(store), tuple(store.facts["columns"]))


def _place(address: str) -> Path:
    digest = hashlib.blake2b(f"{address} {FORMAT}".encode(errors="surrogatepass"), digest_size=16)
    return cache_folder("pairs", digest.hexdigest())


def file_address(path: Path) -> str:
    """The digest of a file's bytes; an unchanged file is not read again to know it."""
    state = os.stat(path)
    seen = [state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino]
    name = hashlib.blake2b(str(path.resolve()).encode(errors="surrogatepass"), digest_size=16).hexdigest()
    note = cache_folder("digests", f"{name}.json")
    try:
        known = json.loads(note.read_text())
        if known["seen"] == seen:
            return str(known["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    digest = sha256(path)
    if time.time() - state.st_mtime > SETTLED:
        try:
            with whole_file(note) as part:
                part.write_text(json.dumps({"seen": seen, "sha256": digest}))
        except OSError as error:  # a note is a help, not a need
            logger.debug("no note of %s was kept (%s)", path, error)
    return digest
