"""What may be trained: the checks at the door of PreferenceTrainer."""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from gapo.errors import InputError
from gapo.model.load import Policy, load_policy, with_lora, without_dropout
from gapo.pairs.token_cache import StoredTokens
from gapo.training.config import PreferenceConfig
from gapo.training.dataset import EncodedPairs

logger = logging.getLogger("gapo")


def policy_of(model: Any, tokenizer: PreTrainedTokenizerBase | None, peft_config: Any) -> Policy:
    """The model, loaded if it is a name, without dropout, with adapters if asked for."""
    if isinstance(model, str):
        loaded = load_policy(model)
        model, tokenizer = loaded.model, tokenizer if tokenizer is not None else loaded.tokenizer
    if tokenizer is None:
        raise InputError("give the tokenizer as processing_class, or the model as a name to load both")
    if without_dropout(model):
        logger.info("dropout is off in all passes: the gap would measure it")
    if peft_config is not None:
        model = with_lora(model, peft_config)
    return Policy(model, tokenizer, str(getattr(model.config, "_name_or_path", "")) or "model")


def longest(model: nn.Module, args: PreferenceConfig) -> int:
    """The length limit: what was asked for, or what the model has positions for if that is less."""
    positions = getattr(model.config, "max_position_embeddings", None)
    return min(args.max_length, positions) if positions else args.max_length


def refuse_what_would_go_wrong(model: nn.Module, args: PreferenceConfig) -> None:
    """What trains without a sign but not what was asked for: one sentence each, before anything runs."""
    low = {p.dtype for p in model.parameters() if p.requires_grad and p.dtype not in (torch.float32, torch.float64)}
    if low:
        raise InputError(
            f"trained weights are in {', '.join(str(d).removeprefix('torch.') for d in low)}, where an anchor's move "
            "rounds away; load the model with dtype=torch.float32 and set bf16=True to compute in bf16"
        )
    if args.world_size > 1:
        raise InputError("several processes are not supported yet; run on one device")
    if args.n_gpu > 1:
        raise InputError(
            "several GPUs in one process (DataParallel) are not supported; set CUDA_VISIBLE_DEVICES to one"
        )
    if args.bf16_full_eval or args.fp16_full_eval:
        raise InputError("bf16_full_eval and fp16_full_eval are refused: they would cast the trained weights; use bf16")
    if args.train_sampling_strategy == "group_by_length":
        raise InputError("train_sampling_strategy group_by_length is not supported; leave it at random")
    if args.neftune_noise_alpha:
        raise InputError("neftune_noise_alpha is refused: the gap would measure the noise")


def refuse_foreign_ids(model: Any, pairs: EncodedPairs | None) -> None:
    """A tokenizer that knows more tokens than the model belongs to another model."""
    known = model.get_input_embeddings().num_embeddings
    if pairs is None or (isinstance(pairs.encoded, StoredTokens) and pairs.encoded.largest < known):
        return
    for pair in pairs.encoded:
        largest = max(*pair.prompt, *pair.chosen, *pair.rejected)
        if largest >= known:
            raise InputError(
                f"pair {pair.id} has token {largest}, but the model knows {known}: tokenizer and model do not belong "
                "together; load both from one place, or resize the model's embeddings"
            )
