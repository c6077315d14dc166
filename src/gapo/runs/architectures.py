"""Published architectures: what a model's config says, so that it can be built without its weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapo.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel


@dataclass(frozen=True)
class Architecture:
    """A class of transformers with the values of the published config, and how many parameters that must give."""

    config: str
    values: Mapping[str, Any]
    parameters: int
    names: tuple[str, ...]  # models that have this shape

    def made(self, **changes: Any) -> PreTrainedConfig:
        """The config; `changes` make it smaller, for a trial with a random model of the same family."""
        import transformers

        return getattr(transformers, self.config)(**{**self.values, **changes})  # type: ignore[no-any-return]


ARCHITECTURES = {
    "mistral-7b": Architecture(
        "MistralConfig",
        {
            "vocab_size": 32000,
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "max_position_embeddings": 32768,
            "sliding_window": None,
            "rms_norm_eps": 1e-5,
            "tie_word_embeddings": False,
        },
        7_241_732_096,
        ("mistralai/Mistral-7B-Instruct-v0.2",),
    ),
    "llama3-8b": Architecture(
        "LlamaConfig",
        {
            "vocab_size": 128256,
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "max_position_embeddings": 8192,
            "rms_norm_eps": 1e-5,
            "tie_word_embeddings": False,
        },
        8_030_261_248,
        ("meta-llama/Meta-Llama-3-8B", "meta-llama/Meta-Llama-3-8B-Instruct", "princeton-nlp/Llama-3-Base-8B-SFT"),
    ),
    "gemma2-9b": Architecture(
        "Gemma2Config",
        {
            "vocab_size": 256000,
            "hidden_size": 3584,
            "intermediate_size": 14336,
            "num_hidden_layers": 42,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 256,
            "query_pre_attn_scalar": 256,
            "max_position_embeddings": 8192,
            "sliding_window": 4096,
            "attn_logit_softcapping": 50.0,
            "final_logit_softcapping": 30.0,
            "tie_word_embeddings": True,
        },
        9_241_705_984,
        ("google/gemma-2-9b", "google/gemma-2-9b-it"),
    ),
    "pythia-2.8b": Architecture(
        "GPTNeoXConfig",
        {
            "vocab_size": 50304,
            "hidden_size": 2560,
            "intermediate_size": 10240,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "max_position_embeddings": 2048,
            "rotary_pct": 0.25,
            "tie_word_embeddings": False,
        },
        2_775_208_960,
        ("EleutherAI/pythia-2.8b",),
    ),
    "smollm2-135m": Architecture(
        "LlamaConfig",
        {
            "vocab_size": 49152,
            "hidden_size": 576,
            "intermediate_size": 1536,
            "num_hidden_layers": 30,
            "num_attention_heads": 9,
            "num_key_value_heads": 3,
            "max_position_embeddings": 8192,
            "rms_norm_eps": 1e-5,
            "tie_word_embeddings": True,
        },
        134_515_008,
        ("smollm2-135m-instruct", "HuggingFaceTB/SmolLM2-135M-Instruct", "HuggingFaceTB/SmolLM2-135M"),
    ),
}


def architecture_of(model: str) -> Architecture | None:
    """The published architecture of this model, where we know it."""
    return next((known for known in ARCHITECTURES.values() if model in known.names), None)


def config_of(model: str) -> tuple[PreTrainedConfig, str]:
    """The model's config and where it is from: a folder, our table of published sizes, or the Hub's cache."""
    known = architecture_of(model)
    if known is not None:
        return known.made(), "published sizes"
    from transformers import AutoConfig

    from gapo.model.load import resolve_model

    source = resolve_model(model)
    try:
        config = AutoConfig.from_pretrained(str(source), trust_remote_code=False)  # to look is not to run
        return config, "its own config" if isinstance(source, Path) else "the Hub"
    except Exception as error:  # the Hub, its cache and broken files fail in many ways
        names = [name for one in ARCHITECTURES.values() for name in one.names]
        raise InputError(
            f"the config of {model!r} cannot be read ({_first_line(error)}), so nothing can be said about its size; "
            f"give a folder or a model whose sizes are known: {did_you_mean(model, names)}"
        ) from None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:150]


def weightless(config: PreTrainedConfig, lora: Mapping[str, Any] | None = None) -> PreTrainedModel:
    """The model on the meta device: shapes without memory. With adapters if asked for, as `load_policy` puts them."""
    import torch
    from transformers import AutoModelForCausalLM

    from gapo.model.load import with_lora

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        model.tie_weights()
        return with_lora(model, lora) if lora is not None else model
