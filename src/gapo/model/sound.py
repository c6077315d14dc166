"""Weights that a checkpoint lacks, that do not fit, or that are no numbers: said when they are loaded, by name.

transformers fills what is missing with random numbers and goes on; one NaN makes every result NaN, much later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from gapo.errors import InputError


def refuse_unsound(model: nn.Module, info: Mapping[str, Any], name: str) -> None:
    """`info` is what `from_pretrained(..., output_loading_info=True)` tells."""
    if missing := sorted(info.get("missing_keys") or ()):
        raise InputError(f"the weights of {name!r} lack {_named(missing)}; {_WAY_OUT}")
    if wrong := sorted(info.get("mismatched_keys") or ()):
        key, found, wanted = wrong[0]
        shapes = f"{key} has the shape {tuple(found)}, and config.json asks for {tuple(wanted)}"
        raise InputError(f"the weights of {name!r} do not fit: {shapes}; {_WAY_OUT}")
    if broken := [key for key, weight in model.named_parameters() if not _finite(weight)]:
        raise InputError(f"the weights of {name!r} hold numbers that are not finite in {_named(broken)}; {_WAY_OUT}")


_WAY_OUT = "copy or download the whole model again"


def _finite(weight: torch.Tensor) -> bool:
    if weight.is_meta or not weight.is_floating_point():
        return True
    total = weight.detach().sum()  # one pass without a copy; NaN and inf survive every sum
    return bool(torch.isfinite(total)) or bool(torch.isfinite(weight.detach()).all())


def _named(keys: Sequence[str]) -> str:
    return keys[0] if len(keys) == 1 else f"{keys[0]} and {len(keys) - 1} more"
