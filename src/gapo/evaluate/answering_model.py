"""The model that answers: a name as `gapo train` takes it, a run, or a folder of adapters on their base."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gapo.errors import InputError
from gapo.evaluate.subject import base_of, fitting_adapters, holds_adapters, run_folder
from gapo.model.load import load_policy
from gapo.model.trust import refuse_pickled_adapters
from gapo.model.wheel import Say


def load_answering(
    name: str,
    *,
    adapter: str | None = None,
    dtype: str = "float32",
    trust_remote_code: bool = False,
    say: Say = print,
) -> tuple[Any, Any]:
    """Model and tokenizer on the device there is. Adapters become part of fp32 weights before these are rounded."""
    import torch

    run = run_folder(name)
    if run is not None and (run / "model").is_dir():
        name = str(run / "model")
    if adapter is None and holds_adapters(Path(name).expanduser()):
        name, adapter = base_of(Path(name).expanduser()), name
    stored = "float32" if adapter else dtype
    policy = load_policy(name, dtype=stored, frozen=True, trust_remote_code=trust_remote_code, say=say)
    model: Any = policy.model if adapter is None else _with_adapter(policy.model, Path(adapter).expanduser())
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return model.to(device=device, dtype=getattr(torch, dtype)).eval(), policy.tokenizer


def name_of(model: str, adapter: str | None = None) -> str:
    """A short name for tables and files: no folders of this machine, no slash."""

    def short(text: str) -> str:
        path = Path(text).expanduser()
        if not path.is_dir():
            return text.rstrip("/").split("/")[-1]
        return "-".join(part for part in path.resolve().parts[-2:] if part != "/")

    return f"{short(model)}+{short(adapter)}" if adapter else short(model)


def _with_adapter(model: Any, folder: Path) -> Any:
    from peft import PeftModel

    from gapo.model.merge import merged

    if not holds_adapters(folder):
        raise InputError(f"{folder} holds no adapters (no adapter_config.json); give --adapter a folder of peft's")
    refuse_pickled_adapters(folder)
    with fitting_adapters(folder, "this model"):
        adapted = PeftModel.from_pretrained(model, str(folder))
    return merged(adapted)
