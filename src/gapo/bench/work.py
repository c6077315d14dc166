"""How much arithmetic a step needs at least, and how much the machine can do.

The count is the same for every variant, so the share of the peak says how much of the machine went into work that
had to be done: a prompt encoded twice, padding, logits nobody reads and second passes all lower it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from gapo.model.policy import causal_lm
from gapo.pairs.encode import EncodedPair

PASSES = 3  # forward, and twice as much backward: for the inputs and for the weights
PEAK_SHAPE = (2048, 1536, 1536)  # large enough that the multiply is all there is, small enough for a tenth of a second


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


def lengths_of(pairs: Iterable[EncodedPair]) -> list[Lengths]:
    return [Lengths(len(pair.prompt), len(pair.chosen), len(pair.rejected)) for pair in pairs]


@dataclass(frozen=True)
class Shape:
    """What of a model the count needs: weights of its linear layers below the head, of the head, and its attention."""

    linear_weights: int
    head_weights: int
    layers: int
    attention_width: int  # heads times their size

    @staticmethod
    def of(model: nn.Module) -> Shape:
        inner = causal_lm(model)
        config = inner.config.get_text_config()
        heads = config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // heads
        head: Any = inner.get_output_embeddings()
        linear = sum(
            layer.weight.numel()
            for layer in inner.modules()
            if isinstance(layer, nn.Linear) and layer.weight is not head.weight
        )
        return Shape(linear, head.weight.numel(), config.num_hidden_layers, heads * size)


def forward_flops(shape: Shape, pair: Lengths) -> int:
    """2 per weight and token, 2 for every product of query and key and again of weight and value."""
    linear = 2 * shape.linear_weights * pair.tokens
    head = 2 * shape.head_weights * pair.responses
    attention = 4 * shape.attention_width * pair.seen * shape.layers
    return linear + head + attention


def useful_flops(shape: Shape, pairs: Iterable[Lengths]) -> int:
    """Forward and backward of a step of SimPO on these pairs, nothing done twice."""
    return PASSES * sum(forward_flops(shape, pair) for pair in pairs)


def matmul_peak(dtype: torch.dtype, seconds: float = 0.3) -> float:
    """The best FLOP/s of one large multiply, over `seconds` and at least three of them."""
    rows, inner, columns = PEAK_SHAPE
    left, right = torch.randn(rows, inner).to(dtype), torch.randn(inner, columns).to(dtype)
    out = torch.empty(rows, columns, dtype=dtype)
    torch.mm(left, right, out=out)  # pages and threads are there before the clock runs
    best, done, start = float("inf"), 0, time.perf_counter()
    while done < 3 or time.perf_counter() - start < seconds:
        before = time.perf_counter()
        torch.mm(left, right, out=out)
        best = min(best, time.perf_counter() - before)
        done += 1
    return 2 * rows * inner * columns / best
