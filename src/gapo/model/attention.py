"""Attention in a shared row `[prompt | chosen | rejected]`: the rejected response must not see the chosen one."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, eager_mask, sdpa_mask

from gapo.errors import InputError
from gapo.model.recompute import recomputes
from gapo.pairs.collate import CHOSEN, PADDING, PROMPT, REJECTED, PairBatch

SEGMENTED = "gapo_segmented"
Masks = Tensor | dict[str, Tensor]


def why_not_shared(backbone: nn.Module) -> str | None:
    """What in the model's settings rules a shared row out, as a sentence; None if nothing does."""
    config: Any = backbone.config
    unknown = set(getattr(config, "layer_types", None) or ()) - {"full_attention", "sliding_attention"}
    if unknown:
        return f"{type(backbone).__name__} has layers of kind {sorted(unknown)[0]}, which no mask can divide"
    if getattr(config, "alibi", False) or any(name.startswith("build") and "alibi" in name for name in dir(backbone)):
        return f"{type(backbone).__name__} has ALiBi, which measures distances along the row and not by position"
    kernel = config._attn_implementation
    if _mask_kind(kernel) is None:
        return (
            f"the attention kernel {kernel} does not take the mask of a shared row; load the model with "
            "attn_implementation='sdpa' or 'eager'"
        )
    return None


def _mask_kind(kernel: str | None) -> str | None:
    """`bool` or `additive`: what the kernel takes. The other kind is added to the scores without a sign of error."""
    maker = ALL_MASK_ATTENTION_FUNCTIONS.get(kernel) if kernel is not None else None
    return "bool" if maker is sdpa_mask else "additive" if maker is eager_mask else None


def allowed(batch: PairBatch, window: int | None = None) -> Bool[Tensor, "rows 1 tokens tokens"]:
    """May query q see key k: k <= q, k a token, not (q rejected and k chosen), and position(q) - position(k) < window.

    Distances are in position ids, as they would be in a row of the response's own. Padding sees what is before it:
    a query that sees nothing would be NaN, and its gradient too.
    """
    segments = batch.segments
    index = torch.arange(segments.shape[1], device=segments.device)
    mask = (index <= index[:, None]) & (segments != PADDING)[:, None, :]
    mask &= ~((segments == REJECTED)[:, :, None] & (segments == CHOSEN)[:, None, :])
    if window is not None:
        positions = batch.position_ids
        mask &= positions[:, :, None] - positions[:, None, :] < window
    return mask[:, None]


def shared_masks(config: Any, batch: PairBatch, dtype: torch.dtype) -> Masks:
    """The mask of every layer, or one for each kind of layer where there are several (Gemma, some Qwens)."""
    windows = _windows(config)
    longest = int(batch.position_ids.max()) + 1
    windows = {kind: w if w is not None and w < longest else None for kind, w in windows.items()}
    made = {window: allowed(batch, window) for window in set(windows.values())}
    if _mask_kind(config._attn_implementation) == "additive":
        lowest = torch.finfo(dtype).min
        made = {w: torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, lowest) for w, mask in made.items()}
    masks = {kind: made[window] for kind, window in windows.items()}
    return masks if len(masks) > 1 else next(iter(masks.values()))


def _windows(config: Any) -> dict[str, int | None]:
    """The sliding window of each kind of layer. Models without kinds (Mistral, Phi) slide in every layer or in none."""
    window = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None)
    if not kinds:
        return {"every": window}
    return {kind: window if kind == "sliding_attention" else None for kind in dict.fromkeys(kinds)}


def shortest_window(config: Any) -> int | None:
    """The sliding window of the layers that have one."""
    return min((window for window in _windows(config).values() if window is not None), default=None)


# ---- one row: two calls without a dense mask ----


@dataclass(frozen=True)
class Segments:
    """The three parts of one shared row, and what the rejected response may see of `[prompt | rejected]`."""

    prompt: int
    chosen: int
    rejected: int
    mask: Bool[Tensor, "rejected keys"]

    @staticmethod
    def of(batch: PairBatch) -> Segments:
        kinds = torch.tensor([PROMPT, CHOSEN, REJECTED], device=batch.segments.device)
        p, c, r = (batch.segments[0] == kinds[:, None]).sum(1).tolist()
        return Segments(p, c, r, torch.ones(r, p + r, dtype=torch.bool, device=kinds.device).tril(p))


def segmented_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    segments: Segments | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """transformers' sdpa; a shared row in two calls, prompt and chosen causally, then rejected on prompt and itself.

    Where anything else shapes the scores (a softcap, sinks, a bias), the stock function and its mask decide.
    """
    shaped = any(options.get(name) is not None for name in ("softcap", "s_aux", "position_bias", "cache"))
    if segments is None or shaped or len(query) != 1 or query.shape[2] != key.shape[2]:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **options
        )
    groups = query.shape[1] // key.shape[1]
    key, value = repeat_kv(key, groups), repeat_kv(value, groups)
    p, end = segments.prompt, segments.prompt + segments.chosen
    first = scaled_dot_product_attention(
        query[:, :, :end], key[:, :, :end], value[:, :, :end], dropout_p=dropout, scale=scaling, is_causal=True
    )
    own_key, own_value = (torch.cat([x[:, :, :p], x[:, :, end:]], dim=2) for x in (key, value))
    second = scaled_dot_product_attention(
        query[:, :, end:], own_key, own_value, attn_mask=segments.mask, dropout_p=dropout, scale=scaling
    )
    return torch.cat([first, second], dim=2).transpose(1, 2).contiguous(), None


AttentionInterface.register(SEGMENTED, segmented_attention)
AttentionMaskInterface.register(SEGMENTED, sdpa_mask)


def _segmentable(backbone: nn.Module, batch: PairBatch) -> bool:
    """Whether one-row attention may be cut: sdpa behind transformers' interface, no window shorter than the row.

    Not with gradient checkpointing: it runs layers again in backward, when the kernel is the stock one.
    """
    config: Any = backbone.config
    if len(batch) != 1 or config._attn_implementation != "sdpa":
        return False
    window = shortest_window(config)
    if window is not None and window <= int(batch.position_ids.max()):
        return False
    if not getattr(backbone, "_supports_attention_backend", False):
        return False
    if recomputes(backbone):
        return False
    parameters = inspect.signature(backbone.forward).parameters.values()
    return any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)


@contextmanager
def shared_attention(backbone: nn.Module, batch: PairBatch) -> Iterator[dict[str, Any]]:
    """Inside, `backbone(input_ids=..., **yielded)` reads shared rows.

    The dense mask is always there: a backbone that keeps `segments` from its layers is slower, not wrong.
    """
    reason = why_not_shared(backbone)
    if reason is not None:
        raise InputError(f"pairs cannot share their prompt: {reason}")
    config: Any = backbone.config
    kernel = config._attn_implementation
    dtype = backbone.get_input_embeddings().weight.dtype  # type: ignore[operator]
    inputs = {"attention_mask": shared_masks(config, batch, dtype), "position_ids": batch.position_ids}
    if not _segmentable(backbone, batch):
        yield inputs
        return
    config._attn_implementation = SEGMENTED
    try:
        yield {**inputs, "segments": Segments.of(batch)}
    finally:
        config._attn_implementation = kernel
