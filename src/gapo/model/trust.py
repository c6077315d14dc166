"""What a model may bring along: weights as safetensors, never as pickles; code of its own only where it was asked for.

Reading a pickle can run whatever its author put into it. safetensors hold numbers and nothing else.
"""

from __future__ import annotations

from pathlib import Path

from gapo.errors import InputError

PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
BESIDE = ("training_args", "optimizer", "scheduler", "scaler", "rng_state")  # of a trainer, not weights of a model
ADAPTERS = "adapter_model"


def refuse_pickled_model(folder: Path) -> None:
    """A model whose weights are there only as pickles is not read."""
    if not any(folder.glob("*.safetensors")):
        _refuse(folder, _pickles(folder), "AutoModelForCausalLM.from_pretrained(...).save_pretrained(...)")


def refuse_pickled_adapters(folder: Path) -> None:
    """The same of adapters: peft would fall back to their pickle."""
    if not (folder / f"{ADAPTERS}.safetensors").is_file():
        _refuse(folder, _pickles(folder), "PeftModel.from_pretrained(...).save_pretrained(...)")


def words_of_trust(name: str, error: Exception, trusted: bool) -> str | None:
    """What transformers says at length about code and pickles, in a sentence; None if it speaks of something else."""
    said = str(error)
    if not trusted and ("trust_remote_code" in said or "custom code which" in said):
        return (
            f"{name!r} needs Python code of its own to be run on this machine; read it, and if you trust it ask for it "
            "with model.trust_remote_code=true (gapo train) or --trust-remote-code (other commands)"
        )
    if "cannot be loaded with `safetensors`" in said:
        return _sentence(name, ["pytorch_model.bin"], "AutoModelForCausalLM.from_pretrained(...).save_pretrained(...)")
    return None


def _pickles(folder: Path) -> list[str]:
    found = (path.name for path in folder.iterdir() if path.suffix in PICKLES)
    return sorted(name for name in found if not name.startswith(BESIDE))


def _refuse(folder: Path, pickles: list[str], way: str) -> None:
    if pickles:
        raise InputError(_sentence(str(folder), pickles, way))


def _sentence(name: str, pickles: list[str], way: str) -> str:
    more = f" and {len(pickles) - 1} more" if len(pickles) > 1 else ""
    return (
        f"{name} has its weights only as a pickle ({pickles[0]}{more}), which can run code when it is read; convert it "
        f"to safetensors where you trust it ({way}) and give that folder"
    )
