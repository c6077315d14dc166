"""One row a pair or two: shared rows wherever this model, on these pairs, gives the same numbers in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from gapo.errors import InputError, did_you_mean
from gapo.model.attention import shortest_window, why_not_shared
from gapo.model.policy import backbone_of, pair_logps
from gapo.pairs.collate import PairBatch, collate, row_width, row_widths
from gapo.pairs.encode import EncodedPair

WISHES = ("auto", "on", "off")
SHORT_PAIRS = 2
LONG = 384  # tokens: limits that no config tells us of (GPT-Neo's window of 256) show from here on
GRADIENTS = 64  # the smallest trained parameters, in the model's order: norms and biases of every layer, or adapters
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}  # of a log-prob per token; ten times that of a gradient's norm
TOLERANCE_LOW = 5e-2  # bf16 and fp16


@dataclass(frozen=True)
class Layout:
    """Whether both responses of a pair share a row, and why."""

    shared: bool
    reason: str


def choose_layout(model: nn.Module, pairs: Sequence[EncodedPair], pad_id: int, wish: str = "auto") -> Layout:
    """`auto` shares where log-probs and gradients stay the same, `on` insists on it, `off` never shares."""
    if wish not in WISHES:
        raise InputError(f"unknown layout {wish!r}; {did_you_mean(wish, WISHES)}")
    if wish == "off":
        return Layout(False, "two rows a pair, as asked for")
    if not pairs:
        return Layout(False, "two rows a pair: there is no pair to compare the layouts on")
    problem = why_not_shared(backbone_of(model)) or _difference(model, pairs, pad_id)
    if problem is None:
        return Layout(True, "one row a pair: log-probs and gradients equal those of two rows")
    if wish == "on":
        raise InputError(f"pairs cannot share their prompt: {problem}; turn sharing off, or leave it at auto")
    return Layout(False, f"two rows a pair: {problem}")


def telling_pairs(model: nn.Module, pairs: Sequence[EncodedPair]) -> list[EncodedPair]:
    """The few pairs of a large set that the layouts are compared on."""
    short, long = _short_and_long(model, pairs)
    return [pairs[i] for i in sorted({*short, long})]


def _short_and_long(model: nn.Module, pairs: Sequence[EncodedPair]) -> tuple[list[int], int]:
    """Places of the shortest pairs, and of the shortest of the long ones or else the longest."""
    widths = row_widths(pairs, shared=False)
    by_length = np.argsort(widths, kind="stable")
    beyond = max(LONG, shortest_window(backbone_of(model).config) or 0)
    place = int(np.searchsorted(widths[by_length], beyond, side="right"))
    return by_length[:SHORT_PAIRS].tolist(), int(by_length[min(place, len(pairs) - 1)])


def _difference(model: nn.Module, pairs: Sequence[EncodedPair], pad_id: int) -> str | None:
    """How shared rows differ from two rows, as a sentence; None if they do not.

    The shortest pairs with their gradient, padded together and one at a time; and a longer one without, because
    windows and other limits show only beyond some length.
    """
    places, longest = _short_and_long(model, pairs)
    short, long = [pairs[i] for i in places], pairs[longest]
    if len(short) == 1:
        short = [*short, EncodedPair(short[0].id, short[0].prompt, short[0].rejected, short[0].chosen)]
    device = next(model.parameters()).device
    name = type(backbone_of(model)).__name__
    was_training = model.training
    model.eval()
    try:
        two, one = (collate(short, pad_id, shared).to(device) for shared in (False, True))
        expected = _measured(model, [two])
        for batches in ([one], [one.take(i) for i in range(len(one))]):
            problem = _compared(model, expected, _measured(model, batches))
            if problem is not None:
                return f"{name} {problem}"
        with torch.no_grad():
            two, one = (collate([long], pad_id, shared).to(device) for shared in (False, True))
            problem = _compared(model, (_means(model, [two]), []), (_means(model, [one]), []))
        return f"{name} {problem} (a pair of {row_width(long, shared=False)} tokens)" if problem else None
    except Exception as error:  # a forward that was not written for 4D masks and positions may raise anything
        first = str(error).strip().splitlines()[0][:200] if str(error).strip() else ""
        return f"{name} cannot read a shared row ({type(error).__name__}: {first})"
    finally:
        model.train(was_training)


def _means(model: nn.Module, batches: Sequence[PairBatch]) -> Tensor:
    """Log-probs per token, all chosen responses first."""
    found = [pair_logps(model, batch) for batch in batches]
    return torch.cat([part.chosen_mean for part in found] + [part.rejected_mean for part in found])


def _measured(model: nn.Module, batches: Sequence[PairBatch]) -> tuple[Tensor, list[Tensor]]:
    """Log-probs per token, and the gradient of a sum of margins, each with its own weight, in some parameters."""
    trained = sorted((p for p in model.parameters() if p.requires_grad), key=lambda p: p.numel())[:GRADIENTS]
    with torch.enable_grad():
        means = _means(model, batches)
        chosen, rejected = means.chunk(2)
        weights = torch.arange(1, len(chosen) + 1, device=means.device)  # else a pair and its swap cancel
        value = (weights * (chosen - rejected)).sum()
        gradient = torch.autograd.grad(value, trained, allow_unused=True) if trained else ()
    return means.detach(), [part for part in gradient if part is not None]


def _compared(
    model: nn.Module, expected: tuple[Tensor, list[Tensor]], found: tuple[Tensor, list[Tensor]]
) -> str | None:
    dtype = backbone_of(model).get_input_embeddings().weight.dtype
    tolerance = TOLERANCE.get(dtype, TOLERANCE_LOW)
    off = float((found[0] - expected[0]).abs().max())
    if not off <= tolerance:  # a NaN is a difference too
        return f"gives other log-probs in a shared row (by {off:.2g} per token)"
    if not expected[1]:
        return None
    length, apart = (
        torch.stack([part.double().norm() for part in parts]).norm()
        for parts in (expected[1], [a - b for a, b in zip(found[1], expected[1], strict=True)])
    )
    if not apart <= 10 * tolerance * length:
        return f"gives another gradient in a shared row (by {float(apart / length):.2g} of its norm)"
    return None
