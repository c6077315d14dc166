"""How long pairs are: what arithmetic, memory and time are counted from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gapo.pairs.encode import EncodedPair


@dataclass(frozen=True)
class Lengths:
    """Tokens of one pair; the prompt counts once."""

    prompt: int
    chosen: int
    rejected: int

    @property
    def tokens(self) -> int:
        return self.prompt + self.chosen + self.rejected

    @property
    def responses(self) -> int:
        """Positions the head must score."""
        return self.chosen + self.rejected

    @property
    def seen(self) -> int:
        """Keys seen by all queries together under a causal mask; a response sees the prompt and itself."""
        own = (self.prompt, self.chosen, self.rejected)
        return sum(n * (n + 1) // 2 for n in own) + self.responses * self.prompt

    def rows(self, shared: bool) -> tuple[int, ...]:
        """The widths of the pair's rows: one with both responses, or one for each."""
        return (self.tokens,) if shared else (self.prompt + self.chosen, self.prompt + self.rejected)


def lengths_of(pairs: Iterable[EncodedPair]) -> list[Lengths]:
    return [Lengths(len(pair.prompt), len(pair.chosen), len(pair.rejected)) for pair in pairs]
