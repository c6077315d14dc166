"""Encoded pairs as a data set a trainer can draw from."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from gapo.errors import InputError
from gapo.pairs.collate import collate
from gapo.pairs.encode import EncodedPair, Encoder, encode_pairs
from gapo.pairs.formats import describe_bad_rows, load_pairs
from gapo.pairs.pair import PairSet

logger = logging.getLogger("gapo")


@dataclass(frozen=True, eq=False)
class EncodedPairs(Dataset[dict[str, Any]]):
    """The encoded pairs and the set they come from, in the same order."""

    encoded: list[EncodedPair]
    pairs: PairSet | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.encoded)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"index": index, "pair": self.encoded[index]}


def encoded_pairs(source: Any, encoder: Encoder, *, strict: bool = False) -> EncodedPairs:
    """Read and encode; rows that cannot be used are reported and left out, or stop the run with `strict`."""
    if isinstance(source, EncodedPairs):
        return source
    pairs = load_pairs(source, strict=strict)
    encoded, bad = encode_pairs(pairs, encoder)
    if strict and bad:
        raise InputError(f"{bad[0].source}: {bad[0].reason} ({bad[0].detail}); {len(bad)} such rows, and strict is on")
    for line in describe_bad_rows((*pairs.bad_rows, *bad)):
        logger.warning("%s", line)
    if not encoded:
        reasons = "; ".join(describe_bad_rows(bad))
        raise InputError(f"{pairs.name}: no pair is left to use ({reasons})")
    kept = {pair.id for pair in encoded}
    return EncodedPairs(encoded, pairs.take(i for i, pair in enumerate(pairs) if pair.id in kept))


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
