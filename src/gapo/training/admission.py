"""What may be trained: the checks at the door of PreferenceTrainer."""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from gapo.errors import InputError
from gapo.model.load import Policy, in_fp32, load_policy, with_lora, without_dropout
from gapo.model.multiply import multiply_fast
from gapo.model.policy import fitting_length
from gapo.model.refusals import NO_LOW_WEIGHTS, NO_PROMPT_LEARNING, refuse_adapter, refuse_quantized
from gapo.pairs.token_cache import StoredTokens
from gapo.training.config import PreferenceConfig
from gapo.training.dataset import EncodedPairs

logger = logging.getLogger("gapo")


def policy_of(
    model: Any, tokenizer: PreTrainedTokenizerBase | None, peft_config: Any, args: PreferenceConfig
) -> Policy:
    """The model, loaded if it is a name, without dropout, with adapters if asked for."""
    if not isinstance(args, PreferenceConfig):
        raise InputError(f"args must be a gapo.PreferenceConfig, not a {type(args).__name__}; it takes the same names")
    args.refuse_launch()
    if peft_config is not None:
        refuse_adapter(peft_config)
    if isinstance(model, str):
        loaded = load_policy(model)
        model, tokenizer = loaded.model, tokenizer if tokenizer is not None else loaded.tokenizer
    if tokenizer is None:
        raise InputError("give the tokenizer as processing_class, or the model as a name to load both")
    multiply_fast()
    if without_dropout(model):
        logger.info("dropout is off in all passes: the gap would measure it")
    if peft_config is not None:
        model = with_lora(model, peft_config)
    refuse_weights(model)
    return Policy(model, tokenizer, str(getattr(model.config, "_name_or_path", "")) or "model")


def refuse_weights(model: nn.Module) -> None:
    """Trained weights must be in fp32, and trained at all; adapters are put there, whoever made them."""
    adapters = getattr(model, "peft_config", {})
    for adapter in adapters.values():
        if getattr(adapter, "is_prompt_learning", False) or getattr(adapter, "is_adaption_prompt", False):
            raise InputError(NO_PROMPT_LEARNING)
    refuse_quantized(getattr(model.config, "quantization_config", None), adapted=bool(adapters))
    if not any(p.requires_grad for p in model.parameters()):
        wanted = (
            "load the adapter with is_trainable=True" if adapters else "set requires_grad on what should be trained"
        )
        raise InputError(f"the model has no trainable parameter; {wanted}")
    if adapters:
        in_fp32(model)
    low = {p.dtype for p in model.parameters() if p.requires_grad and p.dtype not in (torch.float32, torch.float64)}
    if low:
        raise InputError(NO_LOW_WEIGHTS.format(", ".join(sorted(str(d).removeprefix("torch.") for d in low))))


def longest(model: nn.Module, args: PreferenceConfig) -> int:
    """The length limit: what was asked for, or what the model has positions for if that is less."""
    return fitting_length(model, args.max_length)


def refuse_what_would_go_wrong(model: nn.Module, args: PreferenceConfig) -> None:
    """What trains without a sign but not what was asked for: one sentence each, before anything runs."""
    if args.n_gpu > 1:
        raise InputError(
            "several GPUs in one process (DataParallel) are not supported; set CUDA_VISIBLE_DEVICES to one"
        )
    if args.bf16_full_eval or args.fp16_full_eval:
        raise InputError("bf16_full_eval and fp16_full_eval are refused: they would cast the trained weights; use bf16")
    if args.tf32 and args.chosen_objective().anchored:
        raise InputError("tf32 is refused with an anchor: its products round the move away; leave tf32 unset")
    if args.train_sampling_strategy == "group_by_length":
        raise InputError("train_sampling_strategy group_by_length is not supported; leave it at random")
    if args.neftune_noise_alpha:
        raise InputError("neftune_noise_alpha is refused: the gap would measure the noise")


def refuse_foreign_ids(model: Any, pairs: EncodedPairs | None) -> None:
    """A tokenizer that knows more tokens than the model belongs to another model."""
    known = model.get_input_embeddings().weight.shape[0]  # of an adapted layer too
    if pairs is None or (isinstance(pairs.encoded, StoredTokens) and pairs.encoded.largest < known):
        return
    for pair in pairs.encoded:
        largest = max(*pair.prompt, *pair.chosen, *pair.rejected)
        if largest >= known:
            raise InputError(
                f"pair {pair.id} has token {largest}, but the model knows {known}: tokenizer and model do not belong "
                "together; load both from one place, or resize the model's embeddings"
            )
