"""Frozen weights that stay in bf16 or 4 bits, under adapters in fp32.

Stored low, computed with in fp32: an anchor moves the adapters by little, and activations in bf16 would round much of
that away before it reaches a log-prob. Inside an autocast all of it computes in that type, as with fp32 weights.
"""

from __future__ import annotations

from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from gapo.errors import InputError

LOW = (torch.bfloat16, torch.float16)


def keep_low(model: nn.Module) -> bool:
    """Let frozen low weights compute in fp32, each cast for the moment of its use. True if there are any.

    Known are linear layers, embeddings, 4-bit layers, and vectors (norms), which are cast for good.
    """
    found = False
    for name, module in list(model.named_modules()):
        if type(module).__name__ == "Linear4bit":
            found = True
            _without_inference_kernel(module)
            if _choose_compute_dtype not in module._forward_pre_hooks.values():
                module.register_forward_pre_hook(_choose_compute_dtype)
        frozen = [p for p in module.parameters(recurse=False) if p.dtype in LOW and not p.requires_grad]
        if not frozen or is_kept_low(module):
            continue
        found = True
        if type(module).forward is nn.Linear.forward:
            module.forward = MethodType(_linear_in_fp32, module)
        elif isinstance(module, nn.Embedding):
            if _in_fp32 not in module._forward_hooks.values():
                module.register_forward_hook(_in_fp32)
        elif all(p.ndim <= 1 for p in frozen):
            module.float()
        elif type(module).__name__ != "Linear4bit":
            raise InputError(
                f"{name} is a {type(module).__name__} in {str(frozen[0].dtype).removeprefix('torch.')}, which gapo "
                "cannot compute with in fp32; use model.dtype=float32"
            )
    return found


def is_kept_low(module: nn.Module) -> bool:
    """Whether this linear layer is computed with in fp32 while its weight is stored low."""
    return getattr(vars(module).get("forward"), "__func__", None) is _linear_in_fp32


def as_before(model: nn.Module) -> None:
    """Undo `keep_low`, but for the vectors."""
    for module in model.modules():
        if is_kept_low(module):
            del module.forward
        for hooks, ours in ((module._forward_hooks, _in_fp32), (module._forward_pre_hooks, _choose_compute_dtype)):
            for key in [key for key, hook in hooks.items() if hook is ours]:
                del hooks[key]


def _linear_in_fp32(layer: Any, x: Tensor) -> Tensor:
    if torch.is_autocast_enabled(x.device.type):
        return linear(x, layer.weight, layer.bias)
    return _Linear.apply(x, layer.weight, layer.bias)  # type: ignore[no-any-return, no-untyped-call]


class _Linear(torch.autograd.Function):
    """x W' + b in x's type. The graph keeps W as it is stored: autograd would keep the cast copy of every layer."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(weight)
        return linear(x, weight.to(x.dtype), bias.to(x.dtype) if bias is not None else None)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, None]:  # type: ignore[override]
        (weight,) = ctx.saved_tensors
        return grad @ weight.to(grad.dtype) if ctx.needs_input_grad[0] else None, None, None


def _in_fp32(_: nn.Module, __: Any, output: Tensor) -> Tensor:
    return output.float() if output.dtype in LOW else output


def _without_inference_kernel(layer: Any) -> None:
    """Keep a 4-bit layer from packing its weights anew for a kernel that computes in bf16 and has no backward.

    Some CPUs have it, and the first forward without gradient would. Writing the layer's state out unpacks them again.
    """
    if getattr(layer.weight.quant_state, "packing_format_for_cpu", False):
        layer.state_dict()
    layer.support_avx512bf16_for_cpu = False


def _choose_compute_dtype(layer: Any, inputs: tuple[Tensor, ...]) -> None:
    """A 4-bit layer computes in the type it is told: autocast's inside an autocast, otherwise that of its input."""
    kind = inputs[0].device.type
    low = torch.is_autocast_enabled(kind)
    layer.compute_dtype = torch.get_autocast_dtype(kind) if low else inputs[0].dtype
    layer.compute_type_is_set = True
