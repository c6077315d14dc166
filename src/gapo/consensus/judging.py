"""Which labels are likely wrong, told by one pass over the pairs with a model as it is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import torch
from torch import Tensor, nn

from gapo.anchor.bank import GradientBank
from gapo.anchor.fill import fill, pairs_at_once
from gapo.consensus.direction import along_others, evened, units
from gapo.consensus.mixture import Mixture, fit
from gapo.consensus.scope import FULL, judging_parameters, only
from gapo.consensus.sketch import SIZE, Signs
from gapo.model.kept_tensors import keep, read_kept
from gapo.model.passes import Precision, batch_tokens
from gapo.model.ranks import ALONE, Ranks
from gapo.model.reference import Progress, content_key, fingerprint, in_order, no_progress
from gapo.pairs.collate import collate, length_groups, row_widths
from gapo.pairs.encode import EncodedPair
from gapo.storage import cache_folder

WHAT = "gradient sketches"
SLICE = 64  # pairs kept together: about a minute of a large model


@dataclass(frozen=True)
class Judgement:
    """Of each pair: its alignment with the pairs of other prompts, and the probability that its label is wrong."""

    alignment: Tensor
    wrong: Tensor
    mixture: Mixture


def judged(sketches: Tensor, prompts: Tensor) -> Judgement:
    """Every pair by all pairs of other prompts."""
    alignment = along_others(evened(units(sketches)), prompts)
    mixture = fit(alignment.numpy())
    return Judgement(alignment, torch.from_numpy(mixture.wrong(alignment.numpy())), mixture)


def sketches_of(
    model: nn.Module,
    pairs: Sequence[EncodedPair],
    pad_id: int,
    *,
    scope: str = FULL,
    cache: bool = True,
    progress: Progress = no_progress,
    precision: Precision = nullcontext,
    precision_name: str = "",
    shared: bool = False,
    ranks: Ranks = ALONE,
) -> Tensor:
    """Unit sketches of the margin gradients, in the order given, on the CPU; `ranks` share the work.

    They are kept on disk by content, a slice at a time, so that an interrupted pass goes on. As with reference
    log-probs a label is no part of it: what is kept has the responses in an order of their own, and a turned pair's
    sketch is the other's with another sign. Adapters begin at random, so theirs are not kept.
    """
    parameters = judging_parameters(model, scope)
    print_of_model = fingerprint(model) if cache and not hasattr(model, "disable_adapter") else None
    slices = [np.arange(start, min(start + SLICE, len(pairs))) for start in range(0, len(pairs), SLICE)]
    if ranks.alone:  # runs side by side take them in different orders, and find what the others have kept
        Random(os.getpid()).shuffle(slices)
    found = torch.empty(len(pairs), SIZE, dtype=torch.float16)
    with only(model, parameters):
        compute = _Pass(model, Signs(parameters), pairs_at_once(model), pad_id, precision, shared, ranks)
        for places in progress(slices):
            some, turned = in_order([pairs[int(i)] for i in places])
            path = None
            if print_of_model is not None:
                key = content_key(print_of_model, some, f"{precision_name} {scope} {SIZE}")
                path = cache_folder("sketches", f"{key}.safetensors")
            part = _kept_or_computed(path, some, compute)
            found[torch.from_numpy(places)] = torch.where(turned[:, None], -part, part)
    return found.float()


@dataclass(frozen=True)
class _Pass:
    """Gradients of some pairs at a time, sketched and forgotten."""

    model: nn.Module
    signs: Signs
    at_once: int
    pad_id: int
    precision: Precision
    shared: bool
    ranks: Ranks

    def __call__(self, pairs: Sequence[EncodedPair]) -> Tensor:
        device = next(self.model.parameters()).device
        found, bank = torch.zeros(len(pairs), SIZE), GradientBank(self.signs.parameters)
        was_training = self.model.training
        self.model.eval()
        try:
            widths, rows = row_widths(pairs, self.shared), 1 if self.shared else 2
            groups = list(length_groups(widths, rows, batch_tokens(self.model)))
            for group in groups[self.ranks.here :: self.ranks.total]:
                batch = collate([pairs[int(i)] for i in group], self.pad_id, self.shared).to(device)
                fill(bank, self.model, [batch], self.precision, at_once=self.at_once)
                found[torch.from_numpy(group)] = units(self.signs.sketch(bank.parts(bank.parameters), len(group)))
        finally:
            self.model.train(was_training)
        return self.ranks.sum(found.to(self.ranks.device)).cpu().half()


def _kept_or_computed(path: Path | None, pairs: Sequence[EncodedPair], compute: _Pass) -> Tensor:
    if path is None:
        return compute(pairs)
    kept = compute.ranks.first_decides(lambda: read_kept(path, ["sketches"], len(pairs), WHAT))
    if kept is not None:
        return kept["sketches"]
    found = compute(pairs)
    if compute.ranks.first:
        keep(path, {"sketches": found}, WHAT)
    return found
