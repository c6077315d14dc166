"""A gradient in a few thousand numbers that keep its angles to others.

Every entry of the gradient gets a random sign and is added to one of `size` buckets in turn:

    s_b = sum over entries e with e mod size = b of sign_e * G_e

so the dot product of two sketches is that of the gradients, give or take |G| * |G'| / sqrt(size) (a count sketch). It
is linear: the sketch of a flipped pair is minus the pair's own. So flips, folds and directions cost no more gradients.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

SIZE = 4096
SEED = 20_261_118  # any; the same for all, so that sketches of two runs can be compared


class Signs:
    """A random sign for every entry of some parameters: a byte each, drawn once."""

    def __init__(self, parameters: Sequence[nn.Parameter], size: int = SIZE, seed: int = SEED) -> None:
        self.parameters, self.size = tuple(parameters), size
        draw = torch.Generator().manual_seed(seed)
        self._signs = [_signs(p.numel(), draw).to(p.device) for p in self.parameters]
        self._starts = [sum(p.numel() for p in self.parameters[:k]) for k in range(len(self.parameters))]

    def sketch(self, blocks: Iterable[tuple[int, slice, Tensor]], pairs: int) -> Tensor:
        """The sketches of so many pairs from all parts of their gradients: parameter, columns, `[pairs, entries]`."""
        total = torch.zeros(pairs, self.size, dtype=torch.float32)
        for parameter, columns, block in blocks:
            total += self._folded(parameter, columns.start, block).cpu()
        return total

    def _folded(self, parameter: int, start: int, block: Tensor) -> Tensor:
        """What some entries of one parameter's gradients add to the sketches."""
        width = block.shape[1]
        first = (self._starts[parameter] + start) % self.size
        signed = block * self._signs[parameter][start : start + width]
        return pad(signed, (first, -(first + width) % self.size)).view(len(block), -1, self.size).sum(1)


def _signs(entries: int, draw: torch.Generator) -> Tensor:
    return torch.randint(0, 2, (entries,), generator=draw, dtype=torch.int8) * 2 - 1
