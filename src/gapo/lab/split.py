"""Which request serves what: no prompt is used twice."""

from __future__ import annotations

from dataclasses import dataclass

from gapo.lab.world import Request, all_requests

TRAIN_PAIRS, TEST_PAIRS, HELD_OUT, SUPERVISED = 3200, 800, 1000, 11_000


@dataclass(frozen=True)
class Split:
    """Requests of the training pairs, the test pairs, the measures, and the start model's own training."""

    train: list[Request]
    test: list[Request]
    held_out: list[Request]
    supervised: list[Request]


def split_requests(seed: int) -> Split:
    """The four parts, disjoint, from one shuffled list of all requests."""
    requests = iter(all_requests(seed))
    sizes = (TRAIN_PAIRS, TEST_PAIRS, HELD_OUT, SUPERVISED)
    return Split(*[[next(requests) for _ in range(size)] for size in sizes])
