"""What a judging will cost, before anything is spent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gapo.evaluate.endpoint_judges import EndpointJudge
from gapo.evaluate.judge import Game

# Dollars per million tokens, in and out. Prices change: --price-in and --price-out are what counts.
PRICES_OF = "June 2025"
PRICES = {
    "gpt-4-1106-preview": (10.0, 30.0),
    "gpt-4-turbo": (10.0, 30.0),
    "gpt-4.1": (2.0, 8.0),
    "gpt-4.1-mini": (0.4, 1.6),
    "gpt-4o": (2.5, 10.0),
    "gpt-4o-mini": (0.15, 0.6),
}


@dataclass(frozen=True)
class Cost:
    """An estimate. `out_usual`: replies of the usual length; `out_most`: every reply as long as it may be."""

    requests: int
    tokens_in: int
    out_usual: int
    out_most: int
    price_in: float | None
    price_out: float | None
    source: str

    @property
    def usual(self) -> float | None:
        """Dollars."""
        return self._dollars(self.out_usual)

    @property
    def most(self) -> float | None:
        return self._dollars(self.out_most)

    def _dollars(self, out: int) -> float | None:
        if self.price_in is None or self.price_out is None:
            return None
        return (self.tokens_in * self.price_in + out * self.price_out) / 1e6

    @property
    def words(self) -> str:
        tokens = f"{self.requests:,} requests, about {self.tokens_in:,} tokens in and {self.out_usual:,} out"
        if self.usual is None or self.most is None:
            return f"{tokens}; price unknown (--price-in and --price-out, dollars per million tokens)"
        most = f", at most ${self.most:.2f}" if f"{self.most:.2f}" != f"{self.usual:.2f}" else ""
        return f"{tokens}: about ${self.usual:.2f}{most} ({self.source})"


def cost_of(
    games: Iterable[Game], judge: EndpointJudge, price_in: float | None = None, price_out: float | None = None
) -> Cost:
    """Of the games that are left to play."""
    sizes = [
        sum(tokens_in(message["content"]) for message in judge.messages(each.question, each.ours, each.theirs, False))
        for each in games
    ]
    known = PRICES.get(judge.name)
    given = price_in is not None and price_out is not None
    first, second = (price_in, price_out) if price_in is not None or price_out is not None else known or (None, None)
    return Cost(
        requests=len(sizes),
        tokens_in=sum(sizes),
        out_usual=len(sizes) * min(judge.usual_tokens, judge.max_tokens),
        out_most=len(sizes) * judge.max_tokens,
        price_in=first,
        price_out=second,
        source="your prices" if given else f"prices of {PRICES_OF}",
    )


def tokens_in(text: str) -> int:
    """Roughly: four characters a token in ASCII, one in other scripts; never too few by much."""
    other = sum(not character.isascii() for character in text)
    return (len(text) - other) // 4 + other + 4  # the last are a message's own
