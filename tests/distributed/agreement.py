"""What it means that two processes did what one does."""

from __future__ import annotations

import math

import torch

CLOSE = {torch.float64: 1e-8, torch.float32: 1e-6}  # rounding in another order, ten steps long
NUMBERS = ["margin", "anchor_margin", "gap", "weight", "loss", "chosen_logp", "rejected_logp"]
GEOMETRY = ["grad_norm", "alignment", "gap_self", "gap_others"]
LINES = ["loss", "margin", "gap_mean", "gap_std", "weight_mean", "weight_min", "weight_max", "self_check_ratio"]
LINES += ["direction_norm", "moved", "audit_correlation", "audit_cosine", "accuracy", "drift", "grad_norm"]
LINES += ["learning_rate", "epoch", "step"]


def same(one: dict, other: dict) -> None:
    """Weights after ten steps, every pair's row in the same order, every step's line, the evaluation."""
    assert torch.allclose(one["weights"], other["weights"], rtol=0, atol=_close_in(one)), _apart(one, other)
    for exact in ("pair_id", "step", "flipped", "chosen_tokens", "rejected_tokens"):
        assert one["pairs"][exact] == other["pairs"][exact], exact
    for name in NUMBERS + GEOMETRY:
        _close(name, one["pairs"][name], other["pairs"][name], _close_in(one))
    for name in LINES:
        _close(name, _lines(one, name), _lines(other, name), _close_in(one))
    if one["run_through"] and other["run_through"]:
        _close("logged", one["logged"], other["logged"], 1e-6)  # Trainer sums in fp32
    for name in ("eval_loss", "eval_accuracy", "eval_margin"):
        _close(name, [one["metrics"][name]], [other["metrics"][name]], _close_in(one))


def _lines(found: dict, name: str) -> list:
    """Of every step; at the first one gains over the reference are rounding errors, and accuracy is their sign."""
    return [line[name] for line in found["steps"] if name != "accuracy" or line["step"] > 1]


def _close_in(found: dict) -> float:
    return CLOSE[found["weights"].dtype]


def _close(name: str, one: list, other: list, close: float) -> None:
    assert len(one) == len(other), name
    for i, (a, b) in enumerate(zip(one, other, strict=True)):
        if a is None or b is None:
            assert a == b, (name, i, a, b)
        else:
            assert math.isclose(a, b, rel_tol=1e-6, abs_tol=close), (name, i, a, b)


def _apart(one: dict, other: dict) -> str:
    return f"weights differ by {float((one['weights'] - other['weights']).abs().max()):.3g}"
