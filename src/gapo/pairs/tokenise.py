"""Blocks of pairs become token ids, in several processes where there is enough to do; the result is the same."""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gapo.errors import InputError
from gapo.pairs.encode import Encoder
from gapo.pairs.pair import BadRow, PreferencePair

BLOCK = 1024  # pairs a process takes at once
WORTH_PROCESSES = 8 * BLOCK  # pairs: below, starting processes takes longer than they save
MOST_PROCESSES = 16  # unless told otherwise: one process writes what all of them give
# A forked process has the tokenizer and its libraries at once; a new interpreter takes seconds to load them, and
# begins by running the user's script again.
FORKS = sys.platform == "linux"
LOOKS_EVERY = 1.0  # seconds between looks whether the run is still there
AHEAD = 3  # blocks a process that may wait to be written, so that memory stays bounded

logger = logging.getLogger("gapo")
_encoder: Encoder | None = None  # of this process, where it is one of several


class TokenBlock(NamedTuple):
    """Ids of some pairs: prompt, chosen and rejected of each one after the other; left-out pairs have none."""

    ids: NDArray[np.int32]
    lengths: NDArray[np.int32]  # pairs x 3
    bad: list[tuple[int, str, str]]  # place in the block, reason, detail


def process_count(wish: str | int, pairs: int) -> int:
    """How many processes tokenise: what was asked for, or the cores at hand where there is enough to do."""
    wish = int(wish) if isinstance(wish, str) and wish.isdecimal() else wish  # from a command line
    if wish != "auto" and (isinstance(wish, bool) or not isinstance(wish, int) or wish < 1):
        raise InputError(f"tokenizer_processes must be auto or a whole number of at least 1, not {wish!r}")
    if multiprocessing.current_process().daemon:  # such a process may not have children
        return 1
    if wish != "auto":
        return min(int(wish), -(-pairs // BLOCK))
    if pairs < WORTH_PROCESSES or not FORKS:
        return 1
    return min(len(os.sched_getaffinity(0)), MOST_PROCESSES)


def token_blocks(
    pairs: Sequence[PreferencePair], encoder: Encoder, processes: str | int = "auto"
) -> Iterator[TokenBlock]:
    """The ids of all pairs in their order, a block at a time."""
    starts = range(0, len(pairs), BLOCK)
    done = 0
    count = process_count(processes, len(pairs))
    if count > 1:
        try:
            for block in _by_processes(pairs, encoder, count):
                yield block
                done += 1
            return
        except BrokenProcessPool:  # out of memory, usually: one process needs less
            logger.warning("a process that tokenises was ended from outside; going on with one process")
    for start in starts[done:]:
        yield encode_block(encoder, pairs[start : start + BLOCK])


def _by_processes(pairs: Sequence[PreferencePair], encoder: Encoder, count: int) -> Iterator[TokenBlock]:
    context = multiprocessing.get_context("fork" if FORKS else None)
    waiting: deque[Future[TokenBlock]] = deque()
    pool = ProcessPoolExecutor(count, mp_context=context, initializer=_begin, initargs=(encoder,))
    try:
        for start in range(0, len(pairs), BLOCK):
            if len(waiting) == AHEAD * count:
                yield waiting.popleft().result()
            waiting.append(pool.submit(_encode_here, pairs[start : start + BLOCK]))
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin(encoder: Encoder) -> None:
    global _encoder  # noqa: PLW0603 - one encoder a process, sent once
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes are the parallelism
    _encoder = encoder


def end_with(parent: int) -> None:
    """A killed run must not leave its processes waiting for work forever."""
    while os.getppid() == parent:
        time.sleep(LOOKS_EVERY)
    os._exit(1)


def _encode_here(pairs: Sequence[PreferencePair]) -> TokenBlock:
    assert _encoder is not None
    return encode_block(_encoder, pairs)


def encode_block(encoder: Encoder, pairs: Sequence[PreferencePair]) -> TokenBlock:
    """The ids of a few pairs as arrays."""
    ids: list[int] = []
    lengths = np.zeros((len(pairs), 3), dtype=np.int32)
    bad = []
    for place, result in enumerate(encoder.encode_all(list(pairs))):
        if isinstance(result, BadRow):
            bad.append((place, result.reason, result.detail))
            continue
        for part, some in enumerate((result.prompt, result.chosen, result.rejected)):
            ids += some
            lengths[place, part] = len(some)
    return TokenBlock(np.array(ids, dtype=np.int32), lengths, bad)
