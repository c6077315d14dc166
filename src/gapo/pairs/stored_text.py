"""Pairs and left-out rows in a store: written as they are read, decoded one at a time when they are wanted."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from gapo.pairs.pair import BadRow, Message, PairsOnDisk, PreferencePair, Prompt
from gapo.pairs.store_folder import ENDS, Store, StoreWriter
from gapo.pairs.unique_ids import id_hash, renamed_rows

FIELDS = 6  # texts of a pair: prompt, chosen, rejected, id, source, subset
BAD_FIELDS = 3  # of a row that is left out: source, reason, detail
BLOCK = 1024  # pairs written, and read, at once
SPARSE = 8  # pairs further apart than this on average are read one by one
CONVERSATION, HAS_SUBSET = 1, 2  # bits of the column `kinds`
MARKS = {None: -1, False: 0, True: 1}
FLAGS = {mark: flag for flag, mark in MARKS.items()}

Rows = NDArray[np.int64]
Part = TypeVar("Part")


def prompt_bytes(prompt: Prompt) -> bytes:
    """A prompt as text, or a conversation as JSON."""
    if isinstance(prompt, str):
        return prompt.encode()
    return json.dumps([[turn.role, turn.content] for turn in prompt], ensure_ascii=False).encode()


class ContentDigest:
    """What a set of pairs says, in order: prompts, responses, and which is preferred. Ids and marks do not count."""

    def __init__(self) -> None:
        self._digest = hashlib.blake2b(digest_size=16)

    def add(self, pair: PreferencePair) -> None:
        texts = prompt_bytes(pair.prompt), pair.chosen.encode(), pair.rejected.encode()
        self.add_bytes(not isinstance(pair.prompt, str), texts)

    def add_bytes(self, conversation: bool, texts: Sequence[bytes]) -> None:
        self._digest.update(struct.pack("<?3q", conversation, *map(len, texts)))
        self._digest.update(b"".join(texts))

    def __str__(self) -> str:
        return self._digest.hexdigest()


class TextWriter:
    """Writes pairs and left-out rows into a new store, a block at a time."""

    def __init__(self, writer: StoreWriter) -> None:
        self._writer = writer
        self._texts: list[bytes] = []
        self._bad: list[bytes] = []
        self._kinds: list[int] = []
        self._marks: list[int] = []
        self._lengths: list[int] = []
        self._hashes: list[bytes] = []
        self._hashed: list[bytes] = []  # blocks: eight bytes a pair
        self._everything = hashlib.blake2b(digest_size=16)
        self.digest = ContentDigest()
        self.pairs = 0
        for name, dtype in (("kinds", "u1"), ("marks", "i1"), ("characters", "i4"), ("renamed_at", "i8")):
            writer.column(name, dtype)
        for name in ("text", "bad", "renamed"):
            writer.ragged(name, "u1")

    def add(self, row: PreferencePair | BadRow) -> None:
        if isinstance(row, BadRow):
            self._bad += [text.encode(errors="surrogatepass") for text in (row.source, row.reason, row.detail)]
        else:
            self._add_pair(row)
        if len(self._kinds) >= BLOCK or len(self._bad) >= BLOCK * BAD_FIELDS:
            self.flush()

    def _add_pair(self, pair: PreferencePair) -> None:
        conversation = not isinstance(pair.prompt, str)
        content = prompt_bytes(pair.prompt), pair.chosen.encode(), pair.rejected.encode()
        self.digest.add_bytes(conversation, content)
        self._texts += [*content, pair.id.encode(), pair.source.encode(errors="surrogatepass")]
        self._texts.append((pair.subset or "").encode())
        self._kinds.append(CONVERSATION * conversation + HAS_SUBSET * (pair.subset is not None))
        self._marks.append(MARKS[pair.flipped])
        self._lengths += [len(pair.chosen), len(pair.rejected)]
        self._hashes.append(id_hash(pair.id))
        self.pairs += 1

    def flush(self) -> None:
        write = self._writer
        for name, texts in (("text", self._texts), ("bad", self._bad)):
            content, lengths = b"".join(texts), np.array(list(map(len, texts)), dtype="<i8")
            write.add_parts(name, content, lengths)
            for part in (lengths.tobytes(), content):
                self._everything.update(part)
        self._everything.update(bytes(self._kinds) + np.array(self._marks, dtype="i1").tobytes())
        write.add("kinds", self._kinds)
        write.add("marks", self._marks)
        write.add("characters", self._lengths)
        self._hashed.append(b"".join(self._hashes))
        for buffer in (self._texts, self._bad, self._kinds, self._marks, self._lengths, self._hashes):
            buffer.clear()

    @property
    def everything(self) -> str:
        """A digest of all that was flushed, marks and left-out rows too."""
        return self._everything.hexdigest()

    def finish(self, ids: Iterator[str]) -> None:
        """Ids become unique as in a set in memory; `ids` reads them again, should that be needed."""
        hashes = np.frombuffer(b"".join(self._hashed), dtype="<u8")
        rows, names = renamed_rows(hashes, ids)
        encoded = [name.encode() for name in names]
        self._writer.add("renamed_at", rows)
        self._writer.add_parts("renamed", b"".join(encoded), list(map(len, encoded)))
        self._writer.facts |= {"pairs": self.pairs, "content": str(self.digest)}


def written_ids(writer: StoreWriter) -> Iterator[str]:
    """The ids as they were given, from the files of a store that is being written."""
    ends = np.memmap(writer.folder / f"text{ENDS}.bin", dtype="<i8", mode="r")
    with (writer.folder / "text.bin").open("rb") as file:
        for row in range(len(ends) // FIELDS):
            start, end = int(ends[FIELDS * row + 2]), int(ends[FIELDS * row + 3])
            file.seek(start)
            yield file.read(end - start).decode()


class OnDisk(Sequence[Part]):
    """A sequence that compares with any other by its items."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(one == two for one, two in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))


@dataclass(frozen=True, eq=False, repr=False)
class StoredBadRows(OnDisk[BadRow]):
    """The rows that were left out."""

    store: Store

    def __len__(self) -> int:
        return self.store.count("bad" + ENDS) // BAD_FIELDS

    @overload
    def __getitem__(self, index: int) -> BadRow: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[BadRow, ...]: ...
    def __getitem__(self, index: int | slice) -> BadRow | tuple[BadRow, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        row = range(len(self))[index]
        texts = _parts(self.store.column("bad"), self.store.column("bad" + ENDS), row, BAD_FIELDS)
        return BadRow(*(text.decode(errors="surrogatepass") for text in texts))


@dataclass(frozen=True, eq=False, repr=False)
class StoredPairs(OnDisk[PreferencePair], PairsOnDisk):
    """Rows of a store in some order, some of them with their label swapped; a pair is decoded when it is wanted."""

    store: Store
    rows: Rows
    swapped: NDArray[np.bool_]
    marks: NDArray[np.int8]

    @staticmethod
    def whole(store: Store) -> StoredPairs:
        """All pairs, as they were read."""
        n = int(store.facts["pairs"])
        return StoredPairs(store, np.arange(n), np.zeros(n, dtype=np.bool_), np.array(store.column("marks")))

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> PreferencePair: ...
    @overload
    def __getitem__(self, index: slice) -> StoredPairs: ...
    def __getitem__(self, index: int | slice) -> PreferencePair | StoredPairs:
        if isinstance(index, slice):
            return StoredPairs(self.store, self.rows[index], self.swapped[index], self.marks[index])
        row = int(self.rows[index])
        texts = _parts(self.store.column("text"), self.store.column("text" + ENDS), row, FIELDS)
        return self._pair(texts, row, int(self.store.column("kinds")[row]), index)

    def __iter__(self) -> Iterator[PreferencePair]:
        for start in range(0, len(self), BLOCK):
            yield from self._block(start, min(start + BLOCK, len(self)))

    def _block(self, start: int, stop: int) -> Iterator[PreferencePair]:
        """Pairs that lie together are read together, into memory that is free again afterwards."""
        rows = self.rows[start:stop]
        low, high = int(rows.min()), int(rows.max()) + 1
        if high - low > SPARSE * len(rows):
            yield from (self[i] for i in range(start, stop))
            return
        before = max(FIELDS * low - 1, 0)
        ends = self.store.read("text" + ENDS, before, FIELDS * high)
        ends = ends if low else np.concatenate([[0], ends])
        content = self.store.read("text", int(ends[0]), int(ends[-1])).tobytes()
        edges = (ends - ends[0]).tolist()
        kinds = self.store.read("kinds", low, high).tolist()
        for index, row in zip(range(start, stop), rows.tolist(), strict=True):
            first = FIELDS * (row - low)
            texts = [content[edges[i] : edges[i + 1]] for i in range(first, first + FIELDS)]
            yield self._pair(texts, row, kinds[row - low], index)

    def _pair(self, texts: Iterable[bytes], row: int, kind: int, index: int) -> PreferencePair:
        prompt, chosen, rejected, name, source, subset = texts
        if self.swapped[index]:
            chosen, rejected = rejected, chosen
        return PreferencePair(
            _prompt(prompt) if kind & CONVERSATION else prompt.decode(),
            chosen.decode(),
            rejected.decode(),
            FLAGS[int(self.marks[index])],
            subset.decode() if kind & HAS_SUBSET else None,
            source.decode(errors="surrogatepass"),
            self._renamed(row) or name.decode(),
        )

    def _renamed(self, row: int) -> str | None:
        """The name of a pair whose own id was taken."""
        at = self.store.column("renamed_at")
        place = int(np.searchsorted(at, row))
        if place == len(at) or at[place] != row:
            return None
        return next(iter(_parts(self.store.column("renamed"), self.store.column("renamed" + ENDS), place, 1))).decode()

    def id(self, index: int) -> str:
        """One pair's id, without decoding the rest of it."""
        row = int(self.rows[index])
        ends = self.store.column("text" + ENDS)
        start, end = int(ends[FIELDS * row + 2]), int(ends[FIELDS * row + 3])
        return self._renamed(row) or self.store.column("text")[start:end].tobytes().decode()

    def mark(self, index: int) -> bool | None:
        """One pair's `flipped`."""
        return FLAGS[int(self.marks[index])]

    def take(self, indices: Iterable[int]) -> Sequence[PreferencePair]:
        places = np.fromiter(indices, dtype=np.int64)
        if len(np.unique(places)) < len(places):  # a pair taken twice needs a second id
            return tuple(self[int(i)] for i in places)
        return StoredPairs(self.store, self.rows[places], self.swapped[places], self.marks[places])

    def flipped(self) -> tuple[bool | None, ...]:
        return tuple(FLAGS[mark] for mark in self.marks.tolist())

    def flip(self, now: NDArray[np.bool_]) -> StoredPairs:
        """The same pairs with these labels swapped, and every pair marked."""
        marks = ((self.marks == MARKS[True]) != now).astype(np.int8)
        return StoredPairs(self.store, self.rows, self.swapped != now, marks)

    def characters(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Lengths of the chosen and of the rejected responses."""
        lengths = self.store.column("characters").reshape(-1, 2)[self.rows]
        chosen = np.where(self.swapped, lengths[:, 1], lengths[:, 0])
        return chosen, lengths.sum(1, dtype=np.int32) - chosen


def _parts(values: NDArray[Any], ends: NDArray[Any], row: int, fields: int) -> Iterator[bytes]:
    """The fields of one row of a ragged column."""
    first = fields * row
    start = int(ends[first - 1]) if first else 0
    for place in range(first, first + fields):
        end = int(ends[place])
        yield values[start:end].tobytes()
        start = end


def _prompt(text: bytes) -> tuple[Message, ...]:
    return tuple(Message(role, content) for role, content in json.loads(text))
