"""Log-probs of both responses of every pair: the one type all objectives are written in."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

PerPair = Float[Tensor, " pairs"]


@dataclass(frozen=True)
class PairLogps:
    """Summed log-probs of the responses, and how many tokens each has."""

    chosen: PerPair
    rejected: PerPair
    chosen_tokens: Int[Tensor, " pairs"]
    rejected_tokens: Int[Tensor, " pairs"]

    def __len__(self) -> int:
        return len(self.chosen)

    @property
    def chosen_mean(self) -> PerPair:
        """a_w = logp(y_w) / |y_w|."""
        return self.chosen / self.chosen_tokens

    @property
    def rejected_mean(self) -> PerPair:
        """a_l = logp(y_l) / |y_l|."""
        return self.rejected / self.rejected_tokens

    @property
    def margin(self) -> PerPair:
        """M = logp(y_w)/|y_w| - logp(y_l)/|y_l|, per token."""
        return self.chosen_mean - self.rejected_mean

    @property
    def total_margin(self) -> PerPair:
        """logp(y_w) - logp(y_l), over all tokens."""
        return self.chosen - self.rejected

    def detach(self) -> PairLogps:
        return PairLogps(self.chosen.detach(), self.rejected.detach(), self.chosen_tokens, self.rejected_tokens)

    def to(self, device: torch.device | str) -> PairLogps:
        return PairLogps(
            self.chosen.to(device),
            self.rejected.to(device),
            self.chosen_tokens.to(device),
            self.rejected_tokens.to(device),
        )

    def swapped(self, turned: Bool[Tensor, " pairs"] | None = None) -> PairLogps:
        """Chosen and rejected in each other's place, in all pairs or in those named."""
        if turned is None:
            return PairLogps(self.rejected, self.chosen, self.rejected_tokens, self.chosen_tokens)
        return PairLogps(
            torch.where(turned, self.rejected, self.chosen),
            torch.where(turned, self.chosen, self.rejected),
            torch.where(turned, self.rejected_tokens, self.chosen_tokens),
            torch.where(turned, self.chosen_tokens, self.rejected_tokens),
        )

    def lowered(self, gap: PerPair) -> PairLogps:
        """The same log-probs with every margin lower by its gap, half on either side."""
        half = gap.to(self.chosen) / 2
        return PairLogps(
            self.chosen - half * self.chosen_tokens,
            self.rejected + half * self.rejected_tokens,
            self.chosen_tokens,
            self.rejected_tokens,
        )

    def __getitem__(self, index: slice | Tensor) -> PairLogps:
        return PairLogps(
            self.chosen[index], self.rejected[index], self.chosen_tokens[index], self.rejected_tokens[index]
        )

    @staticmethod
    def none(dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu") -> PairLogps:
        """The log-probs of no pair at all."""
        nothing, tokens = torch.empty(0, dtype=dtype, device=device), torch.empty(0, dtype=torch.long, device=device)
        return PairLogps(nothing, nothing, tokens, tokens)

    @staticmethod
    def cat(parts: list[PairLogps]) -> PairLogps:
        """The logps of several batches as one."""
        parts = [part for part in parts if len(part)] or parts[:1]
        return PairLogps(
            torch.cat([part.chosen for part in parts]),
            torch.cat([part.rejected for part in parts]),
            torch.cat([part.chosen_tokens for part in parts]),
            torch.cat([part.rejected_tokens for part in parts]),
        )
