"""How much arithmetic a step needs at least.

The count is the same for every variant, so the share of the peak says how much of the machine went into work that
had to be done: a prompt encoded twice, padding, logits nobody reads and second passes all lower it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import nn

from gapo.model.policy import causal_lm
from gapo.runs.lengths import Lengths

PASSES = 3  # forward, and twice as much backward: for the inputs and for the weights


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
