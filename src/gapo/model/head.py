"""The output layer on response positions only, in chunks: `[batch, tokens, vocabulary]` is never built."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.utils.checkpoint import checkpoint

from gapo.model.kept_low import is_kept_low

CHUNK_ENTRIES = 2**25  # logits held at once: 128 MB in fp32
_plain: ContextVar[bool] = ContextVar("plain head", default=False)


@dataclass(frozen=True)
class Head:
    """What a causal model does between its last hidden state and its logits."""

    layer: nn.Module
    softcap: float | None = None  # Gemma 2: cap * tanh(logits / cap)
    scale: float = 1.0  # Cohere multiplies its logits, Granite divides them

    @property
    def vocabulary(self) -> int:
        return int(self.layer.weight.shape[0])  # type: ignore[index]

    @property
    def fused(self) -> bool:
        """Whether the layer is a plain matrix, whose gradient can be written down: no adapter, hook or shard."""
        layer = self.layer
        return (
            not _plain.get()
            and type(layer) is nn.Linear
            and type(layer.weight) is nn.Parameter
            and ("forward" not in vars(layer) or is_kept_low(layer))
            and not (layer._forward_hooks or layer._forward_pre_hooks)
            and not (layer._backward_hooks or layer._backward_pre_hooks)
        )

    def logits(self, hidden: Float[Tensor, "positions hidden"]) -> Float[Tensor, "positions vocabulary"]:
        return _bent(self.layer(hidden), self.scale, self.softcap)

    def token_logps(
        self, hidden: Float[Tensor, "positions hidden"], targets: Int[Tensor, " positions"]
    ) -> Float[Tensor, " positions"]:
        """log p(target | hidden) at each position."""
        chunk = max(1, CHUNK_ENTRIES // self.vocabulary)
        if self.fused:
            layer: Any = self.layer
            compute = _compute_dtype(hidden)
            with torch.autocast(hidden.device.type, enabled=False):
                return _TokenLogps.apply(  # type: ignore[no-any-return, no-untyped-call]
                    hidden, layer.weight, layer.bias, targets, self.scale, self.softcap, chunk, compute
                )
        if len(hidden) <= chunk:
            return self._chunk_logps(hidden, targets)
        # each chunk's logits are made again in backward: memory stays at one chunk
        parts = zip(hidden.split(chunk), targets.split(chunk), strict=True)
        return torch.cat(
            [checkpoint(self._chunk_logps, h, t, use_reentrant=False, preserve_rng_state=False) for h, t in parts]
        )

    def surprises(
        self,
        hidden: Float[Tensor, "positions hidden"],
        targets: Int[Tensor, " positions"],
        words: Float[Tensor, "vocabulary words"],
    ) -> Float[Tensor, "positions words"]:
        """(onehot(target) - p) @ words at each position: what the model did not expect, in few numbers."""
        chunk = max(1, CHUNK_ENTRIES // self.vocabulary)
        parts = zip(hidden.split(chunk), targets.split(chunk), strict=True)
        return torch.cat([words[t] - self.logits(h).softmax(dim=1) @ words for h, t in parts])

    def _chunk_logps(self, hidden: Tensor, targets: Tensor) -> Tensor:
        logits = self.logits(hidden)
        return logits.gather(1, targets[:, None]).squeeze(1) - logits.logsumexp(dim=1)


@contextmanager
def plain_head() -> Iterator[None]:
    """Inside, log-probs are made of autograd's own operations: slower, and with derivatives of every order."""
    before = _plain.set(True)
    try:
        yield
    finally:
        _plain.reset(before)


def head_of(causal_lm: nn.Module) -> Head:
    """The head as the model's config describes it."""
    config = causal_lm.config
    scale = float(getattr(config, "logit_scale", None) or 1.0)
    divisor = float(getattr(config, "logits_scaling", None) or 1.0)
    return Head(
        layer=causal_lm.get_output_embeddings(),  # type: ignore[operator]
        softcap=getattr(config, "final_logit_softcapping", None),
        scale=scale / divisor,
    )


def _bent(logits: Tensor, scale: float, softcap: float | None) -> Tensor:
    """z = cap * tanh(scale * logits / cap), in fp32 at least: the normaliser sums 1e5 terms."""
    if logits.dtype in (torch.bfloat16, torch.float16):
        logits = logits.float()
    if scale != 1.0:
        logits = logits * scale
    if softcap is not None:
        logits = torch.tanh(logits / softcap) * softcap
    return logits


def _compute_dtype(hidden: Tensor) -> torch.dtype:
    """The type a matrix product runs in here: autocast's inside an autocast, which leaves float64 alone."""
    kind = hidden.device.type
    if torch.is_autocast_enabled(kind) and hidden.dtype != torch.float64:
        return torch.get_autocast_dtype(kind)
    return hidden.dtype


class _TokenLogps(torch.autograd.Function):
    """log p(t) = z_t - log sum exp z, with z the bent logits, and its gradient without autograd's intermediates.

    d log p(t) / dz = onehot(t) - p. Rows are scaled by the incoming gradient on the small side of each product. Logits
    that fit in one chunk are kept for backward, which works in them; otherwise each chunk's are made again.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        scale: float,
        softcap: float | None,
        chunk: int,
        compute: torch.dtype,
    ) -> Tensor:
        ctx.scale, ctx.softcap, ctx.chunk, ctx.compute = scale, softcap, chunk, compute
        matrix, shift = weight.to(compute), bias.to(compute) if bias is not None else None
        logps, normalisers = [], []
        z = hidden.new_empty(0)
        for h, t in zip(hidden.split(chunk), targets.split(chunk), strict=True):
            z = _bent(linear(h.to(compute), matrix, shift), scale, softcap)
            normalisers.append(z.logsumexp(dim=1))
            logps.append(z.gather(1, t[:, None]).squeeze(1) - normalisers[-1])
        ctx.save_for_backward(hidden, weight, bias, targets, torch.cat(normalisers))
        ctx.kept = z if len(logps) == 1 else None  # not among the saved tensors: backward overwrites it
        return torch.cat(logps)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        if torch.is_grad_enabled():  # create_graph: what follows is invisible to autograd and would count as constant
            raise RuntimeError("the log-probs of gapo's head have a first derivative only; use plain_head()")
        hidden, weight, bias, targets, normalisers = ctx.saved_tensors
        kept, ctx.kept = ctx.kept, None  # a second backward through the same graph makes the logits again
        wants_hidden, wants_weight, wants_bias = ctx.needs_input_grad[:3]
        matrix, shift = weight.to(ctx.compute), bias.to(ctx.compute) if bias is not None else None
        to_hidden, to_weight, to_bias = [], None, None
        parts = (x.split(ctx.chunk) for x in (hidden, targets, normalisers, grad))
        for h, t, normaliser, g in zip(*parts, strict=True):
            h = h.to(ctx.compute)
            z = kept if kept is not None else _bent(linear(h, matrix, shift), ctx.scale, ctx.softcap)
            slope = 1 - (z / ctx.softcap) ** 2 if ctx.softcap is not None else None
            off = z.sub_(normaliser[:, None]).exp_()
            off[torch.arange(len(t), device=t.device), t] -= 1  # p - onehot(t)
            if slope is not None:
                off = off.mul_(slope)
            off = off.to(ctx.compute)
            g = (g * -ctx.scale)[:, None]
            if wants_hidden:
                to_hidden.append((off @ matrix).to(hidden.dtype) * g.to(hidden.dtype))
            if wants_weight:
                to_weight = _plus_product(to_weight, off, (h * g).to(ctx.compute), weight.dtype)
            if wants_bias:
                part = (off * g).sum(0).to(bias.dtype)
                to_bias = part if to_bias is None else to_bias + part
        return torch.cat(to_hidden) if to_hidden else None, to_weight, to_bias, None, None, None, None, None


def _plus_product(total: Tensor | None, left: Tensor, right: Tensor, dtype: torch.dtype) -> Tensor:
    """total + left' right, into the one tensor of vocabulary size."""
    if total is None:
        return (left.T @ right).to(dtype)
    if left.dtype == dtype:
        return total.addmm_(left.T, right)
    total += left.T @ right
    return total
