"""What a run ran on, so that it can be repeated."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from gapo.runs.discretion import without_secrets

PACKAGES = ("gapo", "torch", "transformers", "accelerate", "datasets", "peft", "safetensors", "pyarrow", "numpy")


def package_versions() -> dict[str, str | None]:
    """Versions of what we stand on; None where a package is missing."""
    versions: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
    return versions


def environment(command: list[str], seed: int) -> dict[str, Any]:
    """Everything but where and by whose leave: no host, no user, no path, no key."""
    import torch

    from gapo.model.ranks import launched

    return {
        "command": without_secrets(command),
        "seed": seed,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "packages": package_versions(),
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "processes": launched(),
        "device": device_name(),
        "byte_order": sys.byteorder,
    }


def device_name() -> str:
    import torch

    if torch.cuda.is_available():
        return torch.cuda.get_device_name(0)
    return "mps" if torch.backends.mps.is_available() else "cpu"
