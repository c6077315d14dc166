"""A float64 model that computes in float64 all the way."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


class kept_double(TorchFunctionMode):  # noqa: N801  (used as `with kept_double():`)
    """Inside, whoever asks torch for float32 is given float64.

    transformers computes norms, rotations and eager attention in float32, whatever the weights are. That is more than
    bf16 has and less than a float64 truth needs: a gap's third order is lost in it at small radii. For float64 models
    only; float32 weights would meet float64 numbers.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is Tensor.float:
            func = Tensor.double
        named = {name: _wide(value) for name, value in (kwargs or {}).items()}
        return func(*map(_wide, args), **named)


def _wide(value: Any) -> Any:
    return torch.float64 if value is torch.float32 else value


def double_copy(model: nn.Module) -> nn.Module:
    """A float64 copy to measure on, in evaluation mode; the model itself stays as it is."""
    return copy.deepcopy(model).to(torch.float64).eval()
