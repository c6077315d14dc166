"""Two processes in one: the other has the same pairs, so every sum is twice this one's."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gapo.model.ranks import Ranks


@dataclass(frozen=True)
class Twin(Ranks):
    total: int = 2

    def sum(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.mul_(2)

    def largest(self, number: int) -> int:
        return number

    def gather(self, rows: torch.Tensor) -> torch.Tensor:
        return torch.cat([rows, rows])
