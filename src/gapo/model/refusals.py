"""What would train without a sign but not what was asked for: one sentence each, before weights or data are read."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gapo.errors import InputError, did_you_mean

DTYPES = ("float32", "bfloat16", "float16")
QUANTIZATIONS = ("none", "4bit")
_PROMPT_LEARNING = ("PROMPT_TUNING", "MULTITASK_PROMPT_TUNING", "PREFIX_TUNING", "P_TUNING", "CPT", "ADAPTION_PROMPT")
_CHANGES_THE_BASE = ("pissa", "olora", "corda", "loftq", "lora_ga")  # ways to start an adapter

NO_DEEPSPEED = "DeepSpeed is refused: it leaves no gradients to build an anchor from; use FSDP2 (fsdp_version 2)"
NO_FSDP1 = (
    "FSDP1 is refused: it flattens the weights an anchor moves; use FSDP2, fsdp_version 2 (train.fsdp_config={version: "
    "2}, or accelerate launch --fsdp_version 2)"
)
NO_FP16 = (
    "fp16 is refused: its loss scaling does not reach the anchor's backward; use train.precision=mixed, which computes "
    "in bf16 (accelerate launch --mixed_precision bf16)"
)
NO_LOW_WEIGHTS = (
    "trained weights in {} are refused: an anchor's move rounds away in them; use model.dtype=float32 with "
    "train.precision=mixed, which computes in bf16"
)
NO_PROMPT_LEARNING = (
    "prompt tuning, prefix tuning and p-tuning are refused: their virtual tokens belong to no row in which two "
    "responses share a prompt; use LoRA (model.lora={r: 16})"
)
NO_QUANTIZED_TRAINING = (
    "quantised weights cannot be trained themselves: they have no gradient; add adapters (model.lora={r: 16})"
)
NO_BITSANDBYTES = (
    "model.quantization=4bit needs bitsandbytes, which is not installed: pip install 'gapo[qlora]', or leave it at none"
)
NO_8BIT = (
    "8-bit weights are refused: their layers round every input to 8 bits, which hides the anchor's small move; use "
    "model.quantization=4bit"
)

NO_HUB_TOKEN = (
    "hub_token is refused: it would be written into every checkpoint and beside the model; put it into $HF_TOKEN, or "
    "log in once with `hf auth login`"
)


def refuse_launch(
    *,
    deepspeed: Any = None,
    fp16: bool = False,
    fsdp: Any = None,
    fsdp_config: Any = None,
    environment: Mapping[str, str] = os.environ,
) -> None:
    """Refuse DeepSpeed, fp16 and FSDP1, from the arguments of a run or from what `accelerate launch` has set."""
    if deepspeed or _on(environment, "ACCELERATE_USE_DEEPSPEED"):
        raise InputError(NO_DEEPSPEED)
    if fp16 or environment.get("ACCELERATE_MIXED_PRECISION", "").lower() == "fp16":
        raise InputError(NO_FP16)
    if environment.get("ACCELERATE_MIXED_PRECISION", "").lower() == "fp8":
        raise InputError("fp8 is refused: an anchor's move rounds away in it; use train.precision=mixed")
    if _fsdp_version(fsdp, fsdp_config, environment) == 1:
        raise InputError(NO_FSDP1)


def launched_in_bf16(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether `accelerate launch` asks for bf16, which transformers takes without telling its arguments."""
    return environment.get("ACCELERATE_MIXED_PRECISION", "").lower() == "bf16"


def _on(environment: Mapping[str, str], name: str) -> bool:
    return environment.get(name, "").lower() in ("1", "true", "yes", "y", "t", "on")


def _fsdp_version(fsdp: Any, fsdp_config: Any, environment: Mapping[str, str]) -> int | None:
    """1, 2, or None without FSDP. The arguments' default is 2, that of accelerate's environment is 1."""
    if fsdp:
        settings = _read(fsdp_config)
        written = settings.get("version", settings.get("fsdp_version", 2))
    elif _on(environment, "ACCELERATE_USE_FSDP"):
        written = environment.get("FSDP_VERSION", "1")
    else:
        return None
    try:
        return int(written)
    except (TypeError, ValueError):
        raise InputError(f"the version of FSDP must be 2, not {written!r}") from None


def _read(fsdp_config: Any) -> Mapping[str, Any]:
    if not isinstance(fsdp_config, str):
        return fsdp_config or {}
    try:
        written = fsdp_config if fsdp_config.lstrip().startswith("{") else Path(fsdp_config).read_text(encoding="utf-8")
        return dict(json.loads(written))
    except (OSError, ValueError) as error:
        raise InputError(f"train.fsdp_config {fsdp_config!r} cannot be read ({error})") from None


def refuse_model_settings(
    dtype: str = "float32", lora: Any = None, quantization: str = "none", merge: bool = False, **_: Any
) -> None:
    """Refuse what a recipe's model section asks for and no run can do. `lora` None means that all weights train."""
    if dtype not in DTYPES:
        raise InputError(f"unknown model.dtype {dtype!r}; {did_you_mean(str(dtype), DTYPES)}")
    if quantization == "8bit":
        raise InputError(NO_8BIT)
    if quantization not in QUANTIZATIONS:
        near = did_you_mean(str(quantization), QUANTIZATIONS)
        raise InputError(f"unknown model.quantization {quantization!r}; {near}")
    if quantization != "none":
        if lora is None:
            raise InputError(NO_QUANTIZED_TRAINING)
        if importlib.util.find_spec("bitsandbytes") is None:
            raise InputError(NO_BITSANDBYTES)
    if lora is None and dtype != "float32":
        raise InputError(NO_LOW_WEIGHTS.format(dtype))
    if lora is None and merge:
        raise InputError("model.merge=true has no adapters to merge; add them (model.lora={r: 16}) or leave it out")
    if lora is not None:
        refuse_adapter(lora)


def refuse_adapter(adapter: Any) -> None:
    """Refuse adapters that gapo would not see, or whose start is not the model they were put on.

    `adapter`: the fields of a recipe's model.lora, or any config of peft.
    """
    fields = adapter if isinstance(adapter, Mapping) else vars(adapter)
    kind = fields.get("peft_type")
    named = str(getattr(kind, "value", kind) or "LORA").upper()
    if named in _PROMPT_LEARNING or getattr(adapter, "is_prompt_learning", False):
        raise InputError(NO_PROMPT_LEARNING)
    start = fields.get("init_lora_weights", True)
    if isinstance(start, str) and start.lower().startswith(_CHANGES_THE_BASE):
        raise InputError(
            f"init_lora_weights={start} is refused: it changes the base weights, so that with the adapter off the "
            "model is not the one training started from; leave it at true"
        )


def refuse_quantized(method: Any, *, adapted: bool) -> None:
    """Refuse weights that arrive quantised, unless they are 4-bit ones of bitsandbytes under adapters.

    `method` is a model's quantization_config, as an object or as its fields; None for plain weights.
    """
    if method is None:
        return
    fields = method if isinstance(method, Mapping) else vars(method)
    named = str(getattr(fields.get("quant_method"), "value", fields.get("quant_method")) or "unknown").lower()
    bits = [n for n in (8, 4) if fields.get(f"load_in_{n}bit") or fields.get(f"_load_in_{n}bit")]
    if not adapted:
        raise InputError(NO_QUANTIZED_TRAINING)
    if "bitsandbytes" in named and bits == [8]:
        raise InputError(NO_8BIT)
    if "bitsandbytes" not in named:
        raise InputError(f"weights quantised by {named} are refused: an anchor needs bitsandbytes' 4-bit ones, or none")
