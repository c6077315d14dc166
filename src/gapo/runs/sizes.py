"""What of a model arithmetic, memory and traffic are counted from, read from the model itself (weights not needed)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

from torch import nn

from gapo.model.policy import backbone_of, causal_lm

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Unit:
    """Parameters that FSDP2 gathers and reduces together: a block, the embedding, or the tail (final norm and head)."""

    kind: str
    shapes: tuple[Shape, ...]
    trained: tuple[Shape, ...]

    def gathered(self, processes: int = 1) -> int:
        return sum(padded(shape, processes) for shape in self.shapes)

    def reduced(self, processes: int = 1) -> int:
        return sum(padded(shape, processes) for shape in self.trained)


def padded(shape: Shape, processes: int) -> int:
    """Entries of a tensor cut along its first dimension into equal parts, the last filled up."""
    first = shape[0] if shape else 1
    return -(-first // processes) * processes * prod(shape[1:])


@dataclass(frozen=True)
class Sizes:
    """A model, as far as its cost goes."""

    parameters: int
    trained: int
    hidden: int
    inner: int  # width inside a block's feed-forward part
    layers: int
    heads: int
    attention_width: int  # heads times their size
    key_width: int
    vocabulary: int
    linear: int  # weights of linear layers below the head
    linear_trained: int
    linear_again: int  # of them, what gradient checkpointing computes again in backward
    head: int
    head_trained: bool
    eager: bool  # attention scores are built in full
    units: tuple[Unit, ...]

    def of_kind(self, kind: str) -> tuple[Unit, ...]:
        return tuple(unit for unit in self.units if unit.kind == kind)

    @staticmethod
    def of(model: nn.Module) -> Sizes:
        inner = causal_lm(model)
        config = inner.config.get_text_config()
        head: Any = inner.get_output_embeddings()
        heads = config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // heads
        layers = [m for m in inner.modules() if isinstance(m, nn.Linear) and m.weight is not head.weight]
        blocks = _blocks(inner)
        return Sizes(
            parameters=sum(p.numel() for p in inner.parameters()),
            trained=sum(p.numel() for p in inner.parameters() if p.requires_grad),
            hidden=config.hidden_size,
            inner=config.intermediate_size,
            layers=len(blocks),
            heads=heads,
            attention_width=heads * size,
            key_width=(getattr(config, "num_key_value_heads", None) or heads) * size,
            vocabulary=head.weight.shape[0],
            linear=sum(m.weight.numel() for m in layers),
            linear_trained=sum(m.weight.numel() for m in layers if m.weight.requires_grad),
            linear_again=sum(m.weight.numel() for m in layers) - sum(map(_left_out, blocks)),
            head=head.weight.numel(),
            head_trained=head.weight.requires_grad,
            eager=bool(getattr(config, "attn_logit_softcapping", None)) or config._attn_implementation == "eager",
            units=_units(inner, blocks),
        )


def _blocks(inner: Any) -> list[nn.Module]:
    """The layers of the model: what FSDP2 wraps and gradient checkpointing runs again."""
    names = set(inner._no_split_modules or ())
    return [module for module in inner.modules() if type(module).__name__ in names]


def _left_out(block: nn.Module) -> int:
    """Weights of the last product of a block: its output is needed by nothing, so recomputation stops before it.

    Unless a norm follows inside the block (Gemma 2).
    """
    if hasattr(block, "post_feedforward_layernorm"):
        return 0
    last = [module for module in block.modules() if isinstance(module, nn.Linear)][-1]
    return last.weight.numel()


def _units(inner: Any, blocks: list[nn.Module]) -> tuple[Unit, ...]:
    """As accelerate wraps a model: every block, the embedding, and the final norm with the head (all if tied)."""
    found = [_unit("block", block.parameters()) for block in blocks]
    inside = {id(p) for block in blocks for p in block.parameters()}
    embedding, head = inner.get_input_embeddings(), inner.get_output_embeddings()
    tied = embedding.weight is head.weight
    if not tied:
        found.append(_unit("embedding", embedding.parameters()))
        inside |= {id(p) for p in embedding.parameters()}
    norms = [m for m in backbone_of(inner).children() if "Norm" in type(m).__name__]
    tail = [p for module in [*norms[-1:], *([embedding] if tied else []), head] for p in module.parameters()]
    tail = list({id(p): p for p in tail if id(p) not in inside}.values())
    found.append(_unit("tail", tail))
    rest = [p for p in inner.parameters() if id(p) not in inside | {id(p) for p in tail}]
    return (*found, _unit("root", rest)) if rest else tuple(found)


def _unit(kind: str, parameters: Iterable[nn.Parameter]) -> Unit:
    listed = list(parameters)
    return Unit(kind, tuple(tuple(p.shape) for p in listed), tuple(tuple(p.shape) for p in listed if p.requires_grad))
