"""fp32 products by oneDNN: the same arithmetic as float64's to fp32's rounding, in every layout, and only there."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gapo.model import multiply
from gapo.model.multiply import as_exact, by_onednn, mkl_holds_back, multiply_fast

needs_onednn = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="PyTorch without oneDNN")
ROUNDING = torch.finfo(torch.float32).eps


def in_layout(matrix: torch.Tensor, layout: str) -> torch.Tensor:
    """The same entries, kept by rows, by columns, with gaps, or (all rows alike) once for all rows."""
    if layout == "columns":
        return matrix.t().contiguous().t()
    if layout == "gaps":
        return torch.stack([matrix, torch.zeros_like(matrix)], dim=2)[..., 0]
    if layout == "expanded":
        return matrix[:1].expand(matrix.shape)
    return matrix


@needs_onednn
@settings(deadline=None, max_examples=60)
@given(
    sizes=st.tuples(*[st.integers(1, 70)] * 3),
    layouts=st.tuples(*[st.sampled_from(["rows", "columns", "gaps", "expanded"])] * 2),
    shifted=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_a_product_is_float64s_to_the_rounding_of_fp32(sizes, layouts, shifted, seed):
    rows, inner, columns = sizes
    draw = torch.Generator().manual_seed(seed)
    left = in_layout(torch.randn(rows, inner, generator=draw), layouts[0])
    right = in_layout(torch.randn(inner, columns, generator=draw), layouts[1])
    shift = torch.randn(columns, generator=draw) if shifted else None
    found = by_onednn(left, right, shift)
    truth, bound = left.double() @ right.double(), left.double().abs() @ right.double().abs()
    if shift is not None:
        truth, bound = truth + shift, bound + shift.abs()
    # |error| <= n * eps * |left| |right| holds for a sum of n products in any order
    assert ((found - truth).abs() <= (inner + 1) * ROUNDING * bound).all()


@given(size=st.integers(1, 2 * multiply.LARGE))
def test_a_size_is_rounded_up_by_an_eighth_at_most(size):
    rounded = multiply._rounded(size)
    assert size <= rounded < size + max(1, size / 8)
    assert multiply._rounded(rounded) == rounded


def test_rows_of_every_length_make_few_shapes():
    """A kernel a shape is kept: one for each of 4,000 lengths would be gigabytes."""
    assert len({multiply._rounded(size) for size in range(1, multiply.LARGE)}) <= 80
    assert multiply._rounded(50257) == 50257  # a vocabulary is always the same


@needs_onednn
def test_a_product_that_rounds_to_bf16_is_found_out():
    assert as_exact(by_onednn)
    assert not as_exact(lambda a, b: (a.bfloat16() @ b.bfloat16()).float())
    assert not as_exact(lambda a, b: a @ b + 1e-4)


def test_a_pytorch_without_the_operator_keeps_its_own():
    def absent(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        raise AttributeError("_linear_pointwise")

    assert not as_exact(absent)


@pytest.mark.parametrize(
    ("cpuinfo", "capability", "wanted"),
    [
        ("vendor_id\t: AuthenticAMD\nflags: avx512f\nvendor_id\t: AuthenticAMD\n", "AVX512", True),
        ("vendor_id\t: AuthenticAMD\n", "AVX2", False),
        ("vendor_id\t: GenuineIntel\n", "AVX512", False),
        ("processor\t: 0\nBogoMIPS\t: 50.00\n", "DEFAULT", False),
    ],
)
def test_the_processor_decides(tmp_path, monkeypatch, cpuinfo, capability, wanted):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "cpuinfo").write_text(cpuinfo)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    assert mkl_holds_back(tmp_path) is wanted


def test_where_the_processor_is_not_told_nothing_changes(tmp_path):
    assert mkl_holds_back(tmp_path) is False


def test_the_environment_turns_it_off(monkeypatch):
    monkeypatch.setenv("GAPO_ONEDNN", "0")
    monkeypatch.setattr(multiply, "_is_set", lambda: pytest.fail("looked at the processor"))
    assert multiply_fast() is False


TRAINED = """
import json, torch
from gapo.model import multiply

torch.manual_seed(0)
layers = torch.nn.Sequential(torch.nn.Linear(96, 160), torch.nn.Tanh(), torch.nn.Linear(160, 64, bias=False))
inputs = torch.randn(80, 96)

def gradients():
    layers.zero_grad()
    layers(inputs).square().sum().backward()
    return torch.cat([p.grad.flatten() for p in layers.parameters()])

usual, small = gradients(), torch.randn(3, 3)
double = layers.double()
truth = torch.autograd.grad(double(inputs.double()).square().sum(), list(double.parameters()))
truth = torch.cat([g.flatten() for g in truth])
layers.float()
calls, by_onednn, before = [], multiply.by_onednn, small @ small
multiply.by_onednn = lambda *given: calls.append(1) or by_onednn(*given)
multiply._override()
ours = gradients()
shapes = "no error"
try:
    torch.randn(90, 70) @ torch.randn(90, 70)
except RuntimeError as error:
    shapes = str(error)
counted = len(calls)
kept = [torch.equal(before, small @ small), (inputs.double() @ inputs.double().T).dtype == torch.float64,
        (inputs.bfloat16() @ inputs.bfloat16().T).dtype == torch.bfloat16]
summed = torch.addmm(torch.ones(80, 80), inputs, inputs.T, beta=2, alpha=0.5)
apart = (summed - (2 + 0.5 * inputs.double() @ inputs.double().T)).abs().max() / summed.abs().max()
print(json.dumps({"calls": counted, "later": len(calls) - counted, "kept": kept, "shapes": shapes,
                  "usual": float((usual - truth).norm() / truth.norm()),
                  "ours": float((ours - truth).norm() / truth.norm()),
                  "summed": float(apart), "precision": torch.get_float32_matmul_precision()}))
"""


@needs_onednn
def test_a_forward_and_a_backward_go_through_it_and_all_else_does_not():
    """In a process of its own: the override stays until its process ends."""
    told = subprocess.run(
        [sys.executable, "-c", TRAINED],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    found = json.loads(told.stdout)
    assert found["calls"] == 5  # two forwards, two gradients of weights, one of the hidden values
    assert found["later"] == 0
    assert found["kept"] == [True, True, True]
    assert found["ours"] <= 4 * found["usual"] < 1e-5
    assert found["summed"] < 1e-6
    assert "cannot be multiplied" in found["shapes"]
    assert found["precision"] == "highest"  # what PyTorch says of itself is as it was
    assert told.stderr == ""
