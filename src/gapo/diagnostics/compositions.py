"""Which pairs share an anchor in an audit: blocks of pairs, and several random compositions of each block.

A pair's gap depends on who else is in its batch. So every block is cut into anchor batches several times, each time in
another random order, and the same pairs always meet in the same batches: the seed says which.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gapo.diagnostics.probing import anchor_batches

Rows = NDArray[np.int64]
Batches = list[tuple[Rows, int]]  # the rows of each batch, and how many of them, its last ones, are new


def blocks_of(pairs: int, size: int, batch_pairs: int, seed: int) -> Batches:
    """Shuffled pairs in blocks of at most `size`, as equal as can be, each with room for a whole anchor batch.

    Where equal blocks would be too small for one, the last block is filled up with pairs that have had their turn.
    """
    size = min(size, pairs)
    count = -(-pairs // size)
    if pairs // count < batch_pairs:
        return [(np.asarray(rows), new) for rows, new in anchor_batches(pairs, size, seed)]
    order = np.random.default_rng(seed).permutation(pairs)
    ends = [round(pairs * k / count) for k in range(count + 1)]
    return [(order[start:end], end - start) for start, end in pairwise(ends)]


def composition(pairs: int, batch_pairs: int, seed: int, block: int, number: int) -> Batches:
    """The anchor batches of a block in its composition of this number; rows are places in the block."""
    return anchor_batches(pairs, min(batch_pairs, pairs), (seed, block, number))


def spread_seen(batch_pairs: int, block_pairs: int) -> float:
    """The part of a gap's spread that shows when batches are drawn from one block and not from all pairs.

    The other members are drawn without replacement, so the variance of their sum falls short by (b - 1) / (B - 1).
    """
    if block_pairs <= 1:
        return 0.0
    return float(np.sqrt(1 - (min(batch_pairs, block_pairs) - 1) / (block_pairs - 1)))
