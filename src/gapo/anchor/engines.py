"""Four ways to the same step, and the choice between them.

    two_pass     exact: direction, anchor, then the step's own pass (7F)
    bank         exact: keeps every pair's gradient, so the step's gradient is a sum; forward at the anchor (4F)
    first_order  the same bank, and the gap to first order instead of a forward at the anchor; audits itself (3F)
    streaming    a pair's own share of the gap alone, one gradient at a time; approximate (3F)

F is the cost of one forward over the step's pairs; SimPO takes 3F.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import torch
from torch import nn

from gapo.anchor.banked import Bank, FirstOrder
from gapo.anchor.engine import Engine
from gapo.anchor.gap import parameters_in_scope
from gapo.anchor.probe import Probe
from gapo.anchor.settings import AnchorSettings
from gapo.anchor.streaming import Streaming
from gapo.anchor.two_pass import TwoPass
from gapo.errors import InputError
from gapo.model.memory import available_memory
from gapo.model.passes import Precision
from gapo.model.ranks import ALONE, Ranks
from gapo.pairs.collate import PairBatch

ENGINES: dict[str, type[Engine]] = {engine.name: engine for engine in (TwoPass, Bank, FirstOrder, Streaming)}
SHARE_OF_FREE_MEMORY = 0.5  # that `auto` lets a bank take


@dataclass(frozen=True)
class Choice:
    """An engine, the type its bank is kept in (None: the weights' own), and why."""

    name: str
    bank_dtype: torch.dtype | None
    reason: str

    def __str__(self) -> str:
        kept = " in bf16" if self.bank_dtype is torch.bfloat16 else ""
        return f"anchor engine {self.name}{kept}: {self.reason}"

    def engine(
        self,
        settings: AnchorSettings,
        precision: Precision = nullcontext,
        *,
        mixed: bool = False,
        ranks: Ranks = ALONE,
    ) -> Engine:
        settings = replace(settings, engine=self.name)
        if self.name in ("bank", "first_order"):
            return ENGINES[self.name](settings, precision, mixed=mixed, ranks=ranks, dtype=self.bank_dtype)  # type: ignore[call-arg]
        return ENGINES[self.name](settings, precision, mixed=mixed, ranks=ranks)


def choose_engine(
    settings: AnchorSettings,
    model: nn.Module,
    pairs: int,
    *,
    bank_fits_loss: bool = True,
    displaced_step: bool = False,
    sharded: bool = False,
    free: int | None = None,
) -> Choice:
    """The engine asked for, or for `auto` the fastest exact one whose memory is there.

    `pairs` of one optimiser step that this process has. `bank_fits_loss`: the loss depends on the margin alone, so its
    gradient is a sum of margin gradients. `displaced_step`: the step's gradient is taken elsewhere (SAM), where a bank
    has nothing. `sharded`: FSDP2 holds the weights. `free` bytes; measured if not given.
    """
    if sharded:
        return _for_shards(settings)
    trained = parameters_in_scope(model)
    entries = sum(p.numel() for p in trained)
    own = entries * max(p.element_size() for p in trained) * pairs
    half = entries * 2 * pairs
    free = free if free is not None else available_memory(trained[0].device)
    # the step's gradient, the direction, and two moments of the optimiser come on top
    room = SHARE_OF_FREE_MEMORY * (free - 4 * own / pairs)
    if settings.engine != "auto":
        refused = "SAM takes the step's gradient at other weights" if displaced_step else None
        if not bank_fits_loss:
            refused = "the loss depends on more than the margin"
        if refused and ENGINES[settings.engine].takes_gradient:
            raise InputError(f"anchor.engine {settings.engine} cannot be used: {refused}; use two_pass or auto")
        small = settings.bank_dtype == "bf16" or (settings.bank_dtype == "auto" and own > room)
        kept = small and ENGINES[settings.engine] in (Bank, FirstOrder)
        return Choice(settings.engine, torch.bfloat16 if kept else None, "asked for")
    if displaced_step or not bank_fits_loss:
        elsewhere = "SAM takes the step's gradient at other weights than the bank's"
        return Choice("two_pass", None, elsewhere if displaced_step else "the loss depends on more than the margin")
    if settings.bank_dtype != "bf16" and own <= room:
        return Choice("bank", None, f"gradients of {pairs} pairs take {_size(own)}, {_size(free)} are free")
    if settings.bank_dtype != "fp32" and half <= room:
        return Choice(
            "bank", torch.bfloat16, f"gradients of {pairs} pairs take {_size(half)} in bf16, {_size(free)} are free"
        )
    least = own if settings.bank_dtype == "fp32" else half
    return Choice("two_pass", None, f"gradients of {pairs} pairs would take {_size(least)}, {_size(free)} are free")


def _for_shards(settings: AnchorSettings) -> Choice:
    """Shards move for all ranks at once, and a gradient comes summed over them: only `two_pass` works so."""
    way_out = "use DDP (with LoRA where the model is large)"
    if settings.engine not in ("auto", "two_pass"):
        raise InputError(
            f"anchor.engine {settings.engine} needs every pair's own gradient, which FSDP2 never shows; leave "
            f"anchor.engine at auto, or {way_out}"
        )
    if settings.strategy == "instance":
        raise InputError(f"anchor.strategy instance moves weights pair by pair, which FSDP2 shares out; {way_out}")
    if settings.direction == "rank":
        raise InputError(
            f"anchor.direction rank moves each rank's weights its own way, but FSDP2 shares them; {way_out}"
        )
    return Choice("two_pass", None, "FSDP2 shares the weights out, and sums gradients over pairs and ranks")


def probe(model: nn.Module, batches: Sequence[PairBatch], settings: AnchorSettings, step: int = 0) -> Probe:
    """Stress-test the pairs of these batches outside of training. Every `settings.batches` of them share an anchor."""
    if settings.engine == "streaming":
        raise InputError("streaming finds gaps only along with a step's gradient; use another engine to probe")
    choice = choose_engine(settings, model, sum(len(batch) for batch in batches))
    return choice.engine(settings).anchors(model, batches, step)


def _size(size: float) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"
