"""Who judges whom: all pairs each other, or pairs of one kind among themselves.

What makes an answer the better one need not be the same for all prompts: a harmless answer declines, a helpful one
does not. In one sum the two directions take from each other, and what is left is close to chance. Where pairs have a
`subset` each can be judged by those of its own instead; one too small to have a direction is judged by all pairs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gapo.consensus.agreement import agreeing, in_axes
from gapo.consensus.direction import along_others, evened, units
from gapo.consensus.scope import AGREED
from gapo.errors import InputError
from gapo.pairs.pair import PairSet

FEWEST = 64  # pairs that make a direction
WHOLE, SUBSET = "all", "subset"
WAYS = (WHOLE, SUBSET)
Groups = Sequence[str | None]  # of every pair the kind it is of


@dataclass(frozen=True)
class Peers:
    """Pairs that judge each other, by their places: all that have a part in it, and those whose verdict it is."""

    places: Tensor
    judged: Tensor  # of the places, which
    rows: Tensor


def groups_of(pairs: PairSet | None, within: str, key: str = "train.consensus_within") -> list[str | None] | None:
    """The subset of every pair, or None where all pairs judge each other. `key` is the user's name of the setting."""
    if within not in WAYS:
        raise InputError(f"{key} must be one of {', '.join(WAYS)}, not {within!r}")
    if within == WHOLE:
        return None
    subsets = [pair.subset for pair in pairs] if pairs is not None else []
    if all(name is None for name in subsets):
        where = pairs.name if pairs is not None else "the training pairs"
        raise InputError(
            f"{where}: no pair has a `subset`, which {key} {SUBSET} judges within; add such a column, or judge all of "
            "them together"
        )
    return subsets


def kinds_of(pairs: PairSet) -> list[str | None] | None:
    """The subset of every pair, where at least one is large enough to judge itself and is not all there is."""
    subsets = [pair.subset for pair in pairs]
    large = [name for name in _large(subsets) if subsets.count(name) < len(subsets)]
    return subsets if large else None


def _large(names: Groups) -> list[str]:
    """Groups of enough pairs to have a direction."""
    return [name for name, count in Counter(names).items() if name is not None and count >= FEWEST]


def as_rows(sketches: Tensor, lead: str = AGREED) -> Tensor:
    """Sketches ready to be judged. A turned label turns its row and changes no other, so they serve all labels."""
    rows = evened(units(sketches))
    return in_axes(rows) if lead == AGREED else rows


def aligned(rows: Tensor, prompts: Tensor, lead: str, leaders: Tensor | None = None) -> Tensor:
    """Each row along those of other prompts that lead, all if `leaders` marks none."""
    return along_others(agreeing(rows, leaders) if lead == AGREED else rows, prompts, leaders)


def peers(sketches: Tensor, lead: str = AGREED, groups: Groups | None = None) -> list[Peers]:
    """Everyone together, or each group of enough pairs, and then everyone for those that are in none."""
    names = list(groups) if groups is not None else [None] * len(sketches)
    large, found = _large(names), []
    for name in large:
        places = torch.tensor([place for place, own in enumerate(names) if own == name])
        found.append(Peers(places, torch.ones(len(places), dtype=torch.bool), as_rows(sketches[places], lead)))
    rest = torch.tensor([name not in large for name in names], dtype=torch.bool)
    if rest.any() or not found:
        found.append(Peers(torch.arange(len(names)), rest, as_rows(sketches, lead)))
    return found


def along_peers(circles: Sequence[Peers], prompts: Tensor, lead: str = AGREED, sign: Tensor | None = None) -> Tensor:
    """Every pair along its peers of other prompts; `sign` is -1 where a label is turned."""
    found = torch.zeros(len(prompts), dtype=torch.float64)
    for circle in circles:
        rows = circle.rows if sign is None else circle.rows * sign[circle.places].to(circle.rows)[:, None]
        found[circle.places[circle.judged]] = aligned(rows, prompts[circle.places], lead)[circle.judged]
    return found
