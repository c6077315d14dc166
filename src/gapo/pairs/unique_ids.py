"""Ids of millions of pairs are made unique in eight bytes a pair; only ids that occur twice are looked at."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from gapo.pairs.pair import unique_names

_NUMBERED = re.compile(r"(.*)-\d+", re.DOTALL)


def id_hash(name: str) -> bytes:
    """Eight bytes; two ids with the same hash are compared in full later."""
    return hashlib.blake2b(name.encode(), digest_size=8).digest()


def renamed_rows(hashes: NDArray[np.uint64], ids: Iterator[str]) -> tuple[list[int], list[str]]:
    """The rows whose id was taken by an earlier row, and their new ids: as `unique_names` over all ids gives them.

    A new name is an id that occurs twice and a number, so only such ids, and ids that look like such a name, matter.
    """
    values, counts = np.unique(hashes, return_counts=True)
    if not (counts > 1).any():
        return [], []
    twice = {int(value) for value in values[counts > 1]}
    rows, given = [], []
    for row, name in enumerate(ids):
        if _matters(name, twice):
            rows.append(row)
            given.append(name)
    new = [(row, to) for row, name, to in zip(rows, given, unique_names(given), strict=True) if name != to]
    return [row for row, _ in new], [name for _, name in new]


def _matters(name: str, twice: set[int]) -> bool:
    while True:
        if int.from_bytes(id_hash(name), "little") in twice:
            return True
        found = _NUMBERED.fullmatch(name)
        if found is None:
            return False
        name = found.group(1)
