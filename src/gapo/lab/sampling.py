"""Replies drawn from a model, with randomness as an argument."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase

MAX_NEW_TOKENS = 32
ROWS_AT_ONCE = 512


def sample_replies(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[str],
    seed: int,
    *,
    temperature: float = 1.0,
    max_new_tokens: int = MAX_NEW_TOKENS,
) -> list[str]:
    """One reply per prompt; temperature 0 takes the likeliest word.

    Every row consumes one uniform number per position whether or not it has ended. So two models with the same seed
    see the same luck: equal models give equal replies, and a comparison of two models is not blurred by chance.
    """
    generator = torch.Generator().manual_seed(seed)
    luck = torch.rand(len(prompts), max_new_tokens, generator=generator)
    luck = luck.to(next(model.parameters()).device)
    was_training = model.training
    model.train(False)
    replies: list[str] = []
    try:
        for start in range(0, len(prompts), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            tokens = _continue(model, tokenizer, prompts[rows], luck[rows], temperature)
            replies += tokenizer.batch_decode(tokens, skip_special_tokens=True)
    finally:
        model.train(was_training)
    return replies


@torch.no_grad()
def _continue(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[str],
    luck: Float[Tensor, "rows steps"],
    temperature: float,
) -> Int[Tensor, "rows steps"]:
    batch = tokenizer(list(prompts), return_tensors="pt", padding=True, padding_side="left").to(luck.device)
    tokens, attention = batch["input_ids"], batch["attention_mask"]
    positions = (attention.cumsum(1) - 1).clamp(min=0)
    cache = DynamicCache(config=model.config)
    ended = torch.zeros(len(prompts), dtype=torch.bool, device=luck.device)
    said: list[Tensor] = []
    for step in range(luck.shape[1]):
        output = model(input_ids=tokens, attention_mask=attention, position_ids=positions, past_key_values=cache)
        word = _draw(output.logits[:, -1].float(), luck[:, step], temperature)
        word = word.masked_fill(ended, int(tokenizer.pad_token_id))
        said.append(word)
        ended = ended | (word == tokenizer.eos_token_id)
        if bool(ended.all()):
            break
        tokens, positions = word.unsqueeze(1), positions[:, -1:] + 1
        attention = torch.cat([attention, torch.ones_like(tokens)], dim=1)
    return torch.stack(said, dim=1)


def _draw(
    logits: Float[Tensor, "rows words"], luck: Float[Tensor, " rows"], temperature: float
) -> Int[Tensor, " rows"]:
    """The inverse of the cumulative distribution at `luck`."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    cumulative = (logits / temperature).softmax(dim=-1).cumsum(dim=-1)
    reached = cumulative > (luck.unsqueeze(1) * cumulative[:, -1:])
    return reached.int().argmax(dim=-1)
