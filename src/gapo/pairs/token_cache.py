"""Token ids of a set of pairs: in memory for few, in a store for many, found again by content and tokenizer."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from gapo.pairs.encode import EncodedPair, Encoder
from gapo.pairs.pair import BadRow, PairSet, PreferencePair
from gapo.pairs.store import kept_in_memory
from gapo.pairs.store_folder import ENDS, FORMAT, Store, new_store, open_store, publish
from gapo.pairs.stored_text import ContentDigest, OnDisk, StoredPairs
from gapo.pairs.tokenise import token_blocks
from gapo.pairs.tokenizer_identity import tokenizer_identity
from gapo.storage import cache_folder

ENCODING = 1  # raised when the same text and tokenizer would give other ids than before
PARTS = 3  # prompt, chosen, rejected

logger = logging.getLogger("gapo")


class Encoded(NamedTuple):
    """The pairs that can be used, as ids and as text in the same order, and the ones that cannot."""

    encoded: Sequence[EncodedPair]
    pairs: PairSet
    bad: Sequence[BadRow]


def encode_set(pairs: PairSet, encoder: Encoder, cache: str | bool = "auto", processes: str | int = "auto") -> Encoded:
    """Token ids of every pair; many of them are kept on disk and found there the next time."""
    memory = kept_in_memory(cache)
    stored = pairs.pairs if isinstance(pairs.pairs, StoredPairs) else None
    if memory is None or (stored is None and len(pairs) <= memory):
        return _in_memory(pairs, encoder, processes)
    path = token_path(pairs, encoder)
    store = open_store(path)
    if store is None and len(pairs) <= memory:  # a few pairs of a large set
        return _in_memory(pairs, encoder, processes)
    if store is None:
        # all pairs of the text's store, as they were read: noise and selections are an index on top
        whole = StoredPairs.whole(stored.store) if stored is not None else pairs.pairs
        try:
            store = _built(whole, encoder, processes, path)
        except OSError as error:
            logger.warning("token ids are kept in memory: the cache cannot be written (%s)", error.strerror or error)
            return _in_memory(pairs, encoder, processes)
    return _opened(store, pairs)


def token_path(pairs: PairSet, encoder: Encoder) -> Path:
    """Where the ids of these pairs lie, or would lie."""
    if isinstance(pairs.pairs, StoredPairs):
        content = str(pairs.pairs.store.facts["content"])
    else:
        digest = ContentDigest()
        for pair in pairs:
            digest.add(pair)
        content = str(digest)
    settings = [content, tokenizer_identity(encoder.tokenizer), encoder.max_length, encoder.prompt_limit]
    key = json.dumps([*settings, encoder.template, ENCODING, FORMAT])
    return cache_folder("tokens", hashlib.blake2b(key.encode(), digest_size=16).hexdigest())


def _in_memory(pairs: PairSet, encoder: Encoder, processes: str | int) -> Encoded:
    encoded: list[EncodedPair] = []
    bad: list[BadRow] = []
    kept: list[int] = []
    at, source = 0, iter(pairs)
    for block in token_blocks(pairs.pairs, encoder, processes):
        left_out = {place: (reason, detail) for place, reason, detail in block.bad}
        ends = np.cumsum(block.lengths).reshape(-1, PARTS).tolist()
        start = 0
        for place, (prompt, chosen, rejected) in enumerate(ends):
            pair = next(source)
            if place in left_out:
                bad.append(BadRow(pair.source or pair.id, *left_out[place]))
            else:
                cuts = (start, prompt, chosen, rejected)
                ids = [block.ids[cuts[i] : cuts[i + 1]].tolist() for i in range(PARTS)]
                encoded.append(EncodedPair(pair.id, ids[0], ids[1], ids[2], pair.flipped))
                kept.append(at)
            start = rejected
            at += 1
    return Encoded(encoded, pairs if len(kept) == len(pairs) else pairs.take(kept), bad)


def _built(pairs: Sequence[PreferencePair], encoder: Encoder, processes: str | int, path: Path) -> Store:
    with new_store(path.parent) as writer:
        writer.ragged("ids", "i4")
        writer.ragged("bad", "u1")
        writer.column("bad_at", "i8")
        largest, at = -1, 0
        for block in token_blocks(pairs, encoder, processes):
            writer.add_parts("ids", block.ids, block.lengths.reshape(-1))
            reasons = [text.encode() for _, reason, detail in block.bad for text in (reason, detail)]
            writer.add_parts("bad", b"".join(reasons), list(map(len, reasons)))
            writer.add("bad_at", [at + place for place, _, _ in block.bad])
            largest = max(largest, int(block.ids.max(initial=-1)))
            at += len(block.lengths)
        writer.facts |= {"pairs": at, "largest": largest}
        return publish(writer, path)


def _opened(store: Store, pairs: PairSet) -> Encoded:
    """The rows of the store that belong to these pairs, with their labels as they are in the set."""
    text = pairs.pairs
    rows = text.rows if isinstance(text, StoredPairs) else np.arange(len(pairs))
    swapped = text.swapped if isinstance(text, StoredPairs) else np.zeros(len(pairs), dtype=np.bool_)
    bad_at = np.array(store.column("bad_at"))
    unusable = np.isin(rows, bad_at)
    bad = StoredReasons(store, pairs, np.flatnonzero(unusable), np.searchsorted(bad_at, rows[unusable]))
    kept = pairs.take(np.flatnonzero(~unusable).tolist()) if unusable.any() else pairs
    return Encoded(StoredTokens(store, rows[~unusable], swapped[~unusable], kept), kept, bad)


@dataclass(frozen=True, eq=False, repr=False)
class StoredReasons(OnDisk[BadRow]):
    """Why some pairs of a set cannot be used."""

    store: Store
    pairs: PairSet
    places: NDArray[np.int64]  # in the set
    numbers: NDArray[np.int64]  # in the store's list of reasons

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, index: int) -> BadRow: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[BadRow, ...]: ...
    def __getitem__(self, index: int | slice) -> BadRow | tuple[BadRow, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        pair, number = self.pairs[int(self.places[index])], int(self.numbers[index])
        ends = self.store.column("bad" + ENDS)
        start = int(ends[2 * number - 1]) if number else 0
        text = self.store.column("bad")[start : int(ends[2 * number + 1])].tobytes()
        cut = int(ends[2 * number]) - start
        return BadRow(pair.source or pair.id, text[:cut].decode(), text[cut:].decode())


@dataclass(frozen=True, eq=False, repr=False)
class StoredTokens(OnDisk[EncodedPair]):
    """Token ids on disk, decoded a pair at a time; `pairs` are the same pairs as text."""

    store: Store
    rows: NDArray[np.int64]
    swapped: NDArray[np.bool_]
    pairs: PairSet

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> EncodedPair: ...
    @overload
    def __getitem__(self, index: slice) -> list[EncodedPair]: ...
    def __getitem__(self, index: int | slice) -> EncodedPair | list[EncodedPair]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        first = PARTS * int(self.rows[index])
        ends, ids = self.store.column("ids" + ENDS), self.store.column("ids")
        start = int(ends[first - 1]) if first else 0
        cuts = [start, *(int(end) for end in ends[first : first + PARTS])]
        prompt, chosen, rejected = (ids[cuts[i] : cuts[i + 1]].tolist() for i in range(PARTS))
        if self.swapped[index]:
            chosen, rejected = rejected, chosen
        name, flipped = self._label(index)
        return EncodedPair(name, prompt, chosen, rejected, flipped)

    def __iter__(self) -> Iterator[EncodedPair]:
        return (self[i] for i in range(len(self)))

    def _label(self, index: int) -> tuple[str, bool | None]:
        if isinstance(self.pairs.pairs, StoredPairs):
            return self.pairs.pairs.id(index), self.pairs.pairs.mark(index)
        pair = self.pairs[index]
        return pair.id, pair.flipped

    @property
    def largest(self) -> int:
        """No id in the store is larger."""
        return int(self.store.facts["largest"])

    def lengths(self) -> NDArray[np.int64]:
        """Tokens of prompt, chosen and rejected response, pairs x 3, without reading an id."""
        ends = self.store.column("ids" + ENDS)
        found = np.diff(ends, prepend=0).reshape(-1, PARTS)[self.rows]
        found[self.swapped] = found[self.swapped][:, [0, 2, 1]]
        return found

    @cached_property
    def address(self) -> str:
        """What identifies these ids in this order."""
        digest = hashlib.blake2b(self.store.path.name.encode(), digest_size=16)
        digest.update(np.ascontiguousarray(self.rows).tobytes())
        digest.update(np.ascontiguousarray(self.swapped).tobytes())
        return digest.hexdigest()
