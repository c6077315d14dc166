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
    """A random sign for every entry of some tensors, of so many entries each: a byte a sign, drawn once."""

    def __init__(
        self, entries: Sequence[int], size: int = SIZE, seed: int = SEED, device: torch.device | str = "cpu"
    ) -> None:
        self.size = size
        draw = torch.Generator().manual_seed(seed)
        self._signs = [_signs(count, draw).to(device) for count in entries]
        self._starts = [sum(entries[:k]) for k in range(len(entries))]

    @classmethod
    def of(cls, parameters: Sequence[nn.Parameter], size: int = SIZE, seed: int = SEED) -> Signs:
        """For the gradients of these parameters, where they lie."""
        device = parameters[0].device if parameters else "cpu"
        return cls([p.numel() for p in parameters], size, seed, device)

    def sketch(self, blocks: Iterable[tuple[int, slice, Tensor]], pairs: int) -> Tensor:
        """The sketches of so many pairs from all parts of their vectors: tensor, columns, `[pairs, entries]`."""
        total = torch.zeros(pairs, self.size, dtype=torch.float32)
        for tensor, columns, block in blocks:
            total += self._folded(tensor, columns.start, block).cpu()
        return total

    def _folded(self, tensor: int, start: int, block: Tensor) -> Tensor:
        """What some entries of one tensor add to the sketches."""
        width = block.shape[1]
        first = (self._starts[tensor] + start) % self.size
        signed = block * self._signs[tensor][start : start + width].to(block.device)
        return pad(signed, (first, -(first + width) % self.size)).view(len(block), -1, self.size).sum(1)


def _signs(entries: int, draw: torch.Generator) -> Tensor:
    return torch.randint(0, 2, (entries,), generator=draw, dtype=torch.int8) * 2 - 1
