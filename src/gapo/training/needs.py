"""What the losses of a step need, micro-batch by micro-batch: a value for each pair, or one for all."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gapo.model.logps import PairLogps
from gapo.pairs.collate import PairBatch

Needs = dict[str, object]


def at_places(value: object, places: slice | Tensor) -> object:
    """What is given for each pair at these places; what is one for all as it is."""
    if isinstance(value, PairLogps):
        return value[places.to(value.chosen.device) if isinstance(places, Tensor) else places]
    if isinstance(value, Tensor) and value.dim():
        return value[places.to(value.device) if isinstance(places, Tensor) else places]
    return value


def hand_out(needs: Sequence[Needs], batches: Sequence[PairBatch], name: str, values: PairLogps | Tensor) -> None:
    """Give every micro-batch its part of what was found for all pairs of the step."""
    start = 0
    for need, batch in zip(needs, batches, strict=True):
        need[name] = values[start : start + len(batch)]
        start += len(batch)


def joined_needs(needs: Sequence[Needs]) -> Needs:
    """The needs of all micro-batches as those of one."""
    joined: Needs = {}
    for name, first in needs[0].items():
        parts = [need[name] for need in needs]
        if isinstance(first, PairLogps):
            joined[name] = PairLogps.cat(parts)  # type: ignore[arg-type]
        elif isinstance(first, Tensor) and first.dim():
            joined[name] = torch.cat(parts)  # type: ignore[arg-type]
        else:
            joined[name] = first
    return joined
