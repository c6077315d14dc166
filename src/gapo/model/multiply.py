"""Matrix products in fp32 by oneDNN, on processors where PyTorch's usual library leaves half of the speed unused.

PyTorch multiplies fp32 matrices with MKL, which keeps to AVX2 on processors that are not Intel's. On one with AVX-512
oneDNN, which comes with PyTorch too, takes less time (LOG.md) for the same fp32 arithmetic, summed in another order.
PyTorch has a switch for it, but only as a leave to round to bf16, and for attention's small products it is slower.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

LARGE = 1 << 12  # of a matrix: no number of tokens in one product, but a vocabulary
LEAST_WORK = 1 << 18  # multiplications; below it a call costs more than it saves
_PROBES = ((48, 160, 96), (7, 576, 192))  # rows, inner size, columns of what is tried first
_AS_GOOD = 4.0  # times the usual library's error against float64; bf16 would be thousands of times it
_installed: list[torch.library.Library] = []  # an override lives as long as its library


def multiply_fast() -> bool:
    """Let oneDNN compute fp32 matrix products on the CPU where it is known to be faster. True if it is so now.

    Decided by the processor alone, so that a run that goes on later has the same bits. GAPO_ONEDNN=0 turns it off.
    """
    if os.environ.get("GAPO_ONEDNN") == "0":
        return False
    return _is_set()


@cache
def _is_set() -> bool:
    if not (mkl_holds_back() and as_exact(by_onednn)):
        return False
    _override()
    return True


def mkl_holds_back(root: Path = Path("/")) -> bool:
    """Whether this is an AMD processor with AVX-512, on a PyTorch that has both libraries."""
    try:
        vendors = {
            line.split(":")[1].strip()
            for line in (root / "proc/cpuinfo").read_text().splitlines()
            if line.startswith("vendor_id")
        }
    except (OSError, IndexError):
        return False
    has_both = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()
    return has_both and vendors == {"AuthenticAMD"} and torch.backends.cpu.get_cpu_capability() == "AVX512"


def by_onednn(left: Tensor, right: Tensor, shift: Tensor | None = None) -> Tensor:
    """left @ right (+ shift): oneDNN's inner product, whose weight is the right side transposed.

    oneDNN compiles a kernel for every shape and keeps it, in the midst of memory that tensors come and go in: rows of
    every length would let the process grow for ever. So sizes that are numbers of tokens are rounded up, with zeros.
    """
    rows, inner = left.shape
    more_rows, more_inner = _rounded(rows) - rows, _rounded(inner) - inner
    weight = _dense(right, more_inner).t()
    product: Tensor = torch.ops.mkldnn._linear_pointwise(
        _dense(left, more_rows, more_inner), weight, shift, "none", [], ""
    )
    return product[:rows]


def _rounded(size: int) -> int:
    """Up to one of eight sizes between a power of two and the next. Large ones are a model's own, and stay."""
    step = 1 << max(0, size.bit_length() - 4)
    return size if size >= LARGE else -(-size // step) * step


def _dense(matrix: Tensor, more_rows: int = 0, more_columns: int = 0) -> Tensor:
    """So many zeros more, and entries that stand one after the other, along rows or along columns."""
    if more_rows or more_columns:
        return torch.nn.functional.pad(matrix, (0, more_columns, 0, more_rows))
    return matrix if matrix.is_contiguous() or matrix.t().is_contiguous() else matrix.contiguous()


def as_exact(product: Callable[[Tensor, Tensor], Tensor]) -> bool:
    """Whether the product is an fp32 product, in every layout that a forward and a backward use."""
    draw = torch.Generator().manual_seed(0)
    try:
        for rows, inner, columns in _PROBES:
            left, right = torch.randn(rows, inner, generator=draw), torch.randn(inner, columns, generator=draw)
            truth = left.double() @ right.double()
            usual = (left @ right - truth).norm()
            for a in (left, left.t().contiguous().t()):
                for b in (right, right.t().contiguous().t()):
                    if not (product(a, b) - truth).norm() <= _AS_GOOD * usual:
                        return False
    except (RuntimeError, AttributeError):  # another PyTorch may not have the operator
        return False
    return True


def _override() -> None:
    """PyTorch's own kernels stay for everything that is not a large fp32 product."""
    usual, usual_sum = (torch.library.get_kernel(f"aten::{name}", "CPU") for name in ("mm", "addmm"))

    def mm(keys: Any, left: Tensor, right: Tensor) -> Tensor:
        if _suits(left, right):
            return by_onednn(left, right)
        product: Tensor = usual.call_boxed(keys, left, right)
        return product

    def addmm(keys: Any, shift: Tensor, left: Tensor, right: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        if shift.ndim == 1 and beta == alpha == 1 and _suits(left, right) and len(shift) == right.shape[1]:
            return by_onednn(left, right, shift.contiguous())
        product: Tensor = usual_sum.call_boxed(keys, shift, left, right, beta=beta, alpha=alpha)
        return product

    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there was a kernel before
        library.impl("mm", mm, "CPU", with_keyset=True)
        library.impl("addmm", addmm, "CPU", with_keyset=True)
    _installed.append(library)


def _suits(left: Tensor, right: Tensor) -> bool:
    return (
        left.dtype == right.dtype == torch.float32
        and left.ndim == right.ndim == 2
        and left.shape[1] == right.shape[0]
        and left.numel() * right.shape[1] >= LEAST_WORK
    )
