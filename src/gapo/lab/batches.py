"""Prompts and replies as one padded tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class ReplyBatch:
    """Rows of `<bos> prompt reply <eos>` padded on the right; `is_reply` marks the reply's tokens and its <eos>."""

    tokens: Int[Tensor, "rows width"]
    attention: Int[Tensor, "rows width"]
    is_reply: Bool[Tensor, "rows width"]


def reply_batch(tokenizer: PreTrainedTokenizerBase, prompts: Sequence[str], replies: Sequence[str]) -> ReplyBatch:
    """Prompt and reply are tokenised apart, so the boundary between the two is certain."""
    heads = tokenizer(list(prompts))["input_ids"]
    tails = tokenizer(list(replies), add_special_tokens=False)["input_ids"]
    rows = [head + tail + [tokenizer.eos_token_id] for head, tail in zip(heads, tails, strict=True)]
    widest = max(map(len, rows))
    tokens = torch.tensor([row + [tokenizer.pad_token_id] * (widest - len(row)) for row in rows])
    place = torch.arange(widest)
    ends = torch.tensor([len(row) for row in rows]).unsqueeze(1)
    starts = torch.tensor([len(head) for head in heads]).unsqueeze(1)
    return ReplyBatch(tokens, (place < ends).long(), (place >= starts) & (place < ends))
