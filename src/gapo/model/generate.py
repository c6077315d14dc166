"""Replies of a policy to prompts, greedy by default."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from gapo.model.sharding import fresh_weights
from gapo.pairs.encode import Encoder
from gapo.pairs.pair import Prompt


@torch.no_grad()
def replies(
    model: nn.Module,
    encoder: Encoder,
    prompts: Sequence[Prompt],
    *,
    max_new_tokens: int = 64,
    temperature: float = 0.0,
    seed: int = 0,
) -> list[str]:
    """One reply a prompt. Sampling (temperature > 0) uses the seed and leaves the global random state as it was."""
    tokenizer = encoder.tokenizer
    rows = [encoder.prompt_ids(prompt) for prompt in prompts]
    width = max(len(row) for row in rows)
    pad = padding_id(tokenizer, model)
    device = next(model.parameters()).device
    ids = torch.tensor([[pad] * (width - len(row)) + row for row in rows], device=device)
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows], device=device)
    positions = getattr(model.config, "max_position_embeddings", None)
    room = positions - width if positions else max_new_tokens
    sampling: dict[str, Any] = {"do_sample": False}
    if temperature > 0:
        sampling = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
    was_training = model.training
    model.eval()
    try:
        with fresh_weights(model), torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            output = model.generate(  # type: ignore[operator]
                input_ids=ids,
                attention_mask=mask,
                max_new_tokens=max(1, min(max_new_tokens, room)),
                pad_token_id=pad,
                eos_token_id=end_ids(model, tokenizer),
                use_cache=True,
                **sampling,
            )
    finally:
        model.train(was_training)
    return [str(tokenizer.decode(row[width:], skip_special_tokens=True)).strip() for row in output]


def padding_id(tokenizer: Any, model: nn.Module) -> int:
    """A token to pad with. Padding is masked, so any the model knows will do: some tokenizers add one it does not."""
    known = model.get_input_embeddings().num_embeddings  # type: ignore[operator]
    wanted = [tokenizer.pad_token_id, tokenizer.eos_token_id, 0]
    return int(next(token for token in wanted if token is not None and token < known))


def end_ids(model: nn.Module, tokenizer: Any) -> list[int]:
    """Every token that may end a turn: the tokenizer's and the model's own."""
    config = getattr(model, "generation_config", None)
    own = getattr(config, "eos_token_id", None)
    own = own if isinstance(own, list) else [own]
    return sorted({int(token) for token in [tokenizer.eos_token_id, *own] if token is not None})
