"""Encoded pairs as a data set a trainer can draw from."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset

from gapo.errors import InputError
from gapo.pairs.collate import collate
from gapo.pairs.encode import EncodedPair, Encoder
from gapo.pairs.formats import describe_bad_rows, load_pairs
from gapo.pairs.pair import PairSet
from gapo.pairs.token_cache import encode_set

logger = logging.getLogger("gapo")


class Flips(NamedTuple):
    """How many labels are marked at all, and how many of them as flipped."""

    known: int
    flipped: int


@dataclass(frozen=True, eq=False)
class EncodedPairs(Dataset[dict[str, Any]]):
    """The encoded pairs and the set they come from, in the same order; either may be on disk."""

    encoded: Sequence[EncodedPair]
    pairs: PairSet | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.encoded)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"index": index, "pair": self.encoded[index]}

    def prompts(self, rows: Sequence[Tensor]) -> Tensor:
        """A number for each of these pairs' prompts: equal prompts have equal numbers."""
        return torch.tensor([prompt_number(self.encoded[int(i)]) for row in rows for i in row], dtype=torch.long)

    def flips(self) -> Flips:
        marks = self.pairs.flipped if self.pairs is not None else tuple(pair.flipped for pair in self.encoded)
        return Flips(len(marks) - marks.count(None), marks.count(True))


def prompt_number(pair: EncodedPair) -> int:
    """63 bits of a hash of the prompt's ids."""
    content = ",".join(map(str, pair.prompt)).encode()
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big") >> 1


def prompt_numbers(pairs: Iterable[EncodedPair]) -> Tensor:
    """Of every pair: pairs of one prompt have the same."""
    return torch.tensor([prompt_number(pair) for pair in pairs], dtype=torch.long)


def encoded_pairs(
    source: Any, encoder: Encoder, *, strict: bool = False, cache: str | bool = "auto", processes: str | int = "auto"
) -> EncodedPairs:
    """Read and encode, or open what is already in the cache.

    Rows that cannot be used are reported and left out, or stop the run with `strict`.
    """
    if isinstance(source, EncodedPairs):
        return source
    pairs = load_pairs(source, strict=strict, cache=cache)
    found = encode_set(pairs, encoder, cache, processes)
    if strict and len(found.bad):
        first = found.bad[0]
        raise InputError(
            f"{first.source}: {first.reason} ({first.detail}); {len(found.bad)} such rows, and strict is on"
        )
    for line in describe_bad_rows(chain(pairs.bad_rows, found.bad)):
        logger.warning("%s", line)
    if not len(found.encoded):
        reasons = "; ".join(describe_bad_rows(found.bad))
        raise InputError(f"{pairs.name}: no pair is left to use ({reasons}); mend the pairs, or give others")
    return EncodedPairs(found.encoded, found.pairs)


def encoded_sets(sources: Any, encoder: Encoder, **how: Any) -> Any:
    """Encoded pairs of one source, of several by name, or of none."""
    if isinstance(sources, dict):
        return {name: encoded_pairs(source, encoder, **how) for name, source in sources.items()}
    return encoded_pairs(sources, encoder, **how) if sources is not None else None


@dataclass(frozen=True)
class PairCollator:
    """Items of `EncodedPairs` become the inputs of one forward."""

    pad_id: int
    shared: bool = False

    def __call__(self, items: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        batch = collate([item["pair"] for item in items], self.pad_id, self.shared)
        return {
            "input_ids": batch.input_ids,
            "segments": batch.segments,
            "index": torch.tensor([item["index"] for item in items], dtype=torch.long),
        }
