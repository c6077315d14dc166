"""The model of an audit: what `gapo eval` takes, with the weights trainable that training would move."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapo.errors import InputError, did_you_mean
from gapo.evaluate.subject import Subject, base_of, fitting_adapters, holds_adapters, load_subject, run_folder

if TYPE_CHECKING:
    from torch import nn

    from gapo.model.wheel import Say

DTYPES = ("float32", "float64", "bfloat16")
SAMPLED = 4096  # values of each weight that tell one model from another: training changes them all


def load_audited(
    name: str,
    adapter: str | None = None,
    dtype: str = "float32",
    say: Say = print,
    *,
    trust_remote_code: bool = False,
) -> Subject:
    """A model, a run, a folder of adapters, or a base with the adapters of `adapter`; adapters alone are moved.

    `dtype` is that of the weights: float32; float64; or bfloat16 for a base that stays frozen under adapters.
    """
    if dtype not in DTYPES:
        raise InputError(f"unknown --dtype {dtype!r}; {did_you_mean(dtype, DTYPES)}")
    run = run_folder(name)
    folder = run / "model" if run is not None else Path(name).expanduser()
    if adapter is not None:
        subject = _with_adapters(name, Path(adapter).expanduser(), dtype, say, trust_remote_code)
    elif holds_adapters(folder) and run is None and not (folder.parent / "recipe.yaml").is_file():
        subject = _with_adapters(base_of(folder), folder, dtype, say, trust_remote_code, shown=name)
    else:
        subject = load_subject(name, say, trust_remote_code=trust_remote_code)
        if dtype == "bfloat16":
            raise InputError(
                "--dtype bfloat16 stores a frozen base under adapters; an anchor's move of whole weights rounds away "
                "in it, so leave it at float32"
            )
    model: Any = subject.model
    return replace(subject, model=(model.double() if dtype == "float64" else model).to(_device()).eval())


def model_and_name(model: Any, tokenizer: Any, call: str) -> tuple[Any, Any, str]:
    """Model, tokenizer and a name for them: a name is loaded, a model in memory needs its tokenizer."""
    if isinstance(model, str):
        subject = load_audited(model, say=lambda _: None)
        return subject.model, subject.tokenizer, model
    if tokenizer is None:
        raise InputError(f"a model in memory needs its tokenizer: {call}(pairs, model, tokenizer)")
    return model, tokenizer, type(model).__name__


def _with_adapters(base: str, folder: Path, dtype: str, say: Say, trusted: bool, shown: str | None = None) -> Subject:
    from peft import PeftModel

    from gapo.model.load import in_fp32, load_policy, without_dropout
    from gapo.model.trust import refuse_pickled_adapters

    if not (folder / "adapter_config.json").is_file():
        raise InputError(f"{folder} holds no adapter_config.json, so it is no adapter; give the folder peft wrote")
    refuse_pickled_adapters(folder)
    stored = "float32" if dtype == "float64" else dtype
    policy = load_policy(base, dtype=stored, frozen=True, trust_remote_code=trusted, say=say)
    with fitting_adapters(folder, base):
        model = PeftModel.from_pretrained(policy.model, str(folder), is_trainable=True)  # type: ignore[arg-type]
    in_fp32(model)
    without_dropout(model)
    return Subject(model, policy.tokenizer, shown or f"{base} with {folder}")  # type: ignore[arg-type]


def _device() -> str:
    import torch

    if not torch.cuda.is_available():
        return "cpu"
    return f"cuda:{int(os.environ.get('LOCAL_RANK') or 0) % torch.cuda.device_count()}"


def print_of_model(model: nn.Module) -> str:
    """A short name for these weights: their shapes, types and some of their values."""
    digest = hashlib.blake2b(digest_size=16)
    for name, parameter in model.named_parameters():
        flat = parameter.detach().reshape(-1)
        some = flat[:: max(1, len(flat) // SAMPLED)].double().cpu().contiguous()
        digest.update(f"{name} {tuple(parameter.shape)} {parameter.dtype} {parameter.requires_grad}".encode())
        digest.update(some.numpy().tobytes())
    return digest.hexdigest()
