"""Which labels are likely wrong, told by one pass over the pairs with a model as it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import torch
from torch import Tensor, nn

from gapo.anchor.bank import GradientBank
from gapo.anchor.fill import fill, pairs_at_once
from gapo.consensus.direction import units
from gapo.consensus.mixture import Mixture, fit
from gapo.consensus.peers import Groups, along_peers, peers
from gapo.consensus.scope import AGREED, STATES, judging_parameters, only
from gapo.consensus.sketch import SIZE, Signs
from gapo.consensus.states import StateSketches
from gapo.model.kept_tensors import keep, read_kept
from gapo.model.passes import Precision, batch_tokens, idle_batch, idle_passes
from gapo.model.ranks import ALONE, Ranks
from gapo.model.reference import Progress, content_key, fingerprint, in_order, no_progress
from gapo.model.sharding import fresh_weights, no_graph
from gapo.pairs.collate import PairBatch, collate, length_groups, row_widths
from gapo.pairs.encode import EncodedPair
from gapo.storage import cache_folder

WHAT = "sketches of pairs"
SLICE = 64  # pairs kept together: about a minute of a large model
TOKENS_AT_ONCE = 4096  # the states of every layer stand side by side: 2 GB of an 8B model


@dataclass(frozen=True)
class Judgement:
    """Of each pair: its alignment with its peers of other prompts, and the probability that its label is wrong."""

    alignment: Tensor
    wrong: Tensor
    mixture: Mixture


def judged(sketches: Tensor, prompts: Tensor, lead: str = AGREED, groups: Groups | None = None) -> Judgement:
    """Every pair by its peers of other prompts: all pairs, or those of its group."""
    alignment = along_peers(peers(sketches, lead, groups), prompts, lead)
    mixture = fit(alignment.numpy())
    return Judgement(alignment, torch.from_numpy(mixture.wrong(alignment.numpy())), mixture)


def sketches_of(
    model: nn.Module,
    pairs: Sequence[EncodedPair],
    pad_id: int,
    *,
    scope: str = STATES,
    cache: bool = True,
    progress: Progress = no_progress,
    precision: Precision = nullcontext,
    precision_name: str = "no",
    shared: bool = False,
    ranks: Ranks = ALONE,
) -> Tensor:
    """Unit sketches of the pairs, in the order given, on the CPU; `ranks` share the work.

    They are kept on disk by content, a slice at a time, so that an interrupted pass goes on. As with reference
    log-probs a label is no part of it: what is kept has the responses in an order of their own, and a turned pair's
    sketch is the other's with another sign. Adapters begin at random, so theirs are not kept.
    """
    print_of_model = fingerprint(model) if cache and not hasattr(model, "disable_adapter") else None
    slices = [np.arange(start, min(start + SLICE, len(pairs))) for start in range(0, len(pairs), SLICE)]
    if ranks.alone:  # runs side by side take them in different orders, and find what the others have kept
        Random(os.getpid()).shuffle(slices)
    found = torch.empty(len(pairs), SIZE, dtype=torch.float16)
    with _sketching(model, scope, precision) as sketch:
        compute = _Pass(model, sketch, pad_id, shared, ranks)
        for places in progress(slices):
            some, turned = in_order([pairs[int(i)] for i in places])
            path = None
            if print_of_model is not None:
                key = content_key(print_of_model, some, f"{precision_name} {scope} {SIZE}")
                path = cache_folder("sketches", f"{key}.safetensors")
            part = _kept_or_computed(path, some, compute)
            found[torch.from_numpy(places)] = torch.where(turned[:, None], -part, part)
    return found.float()


Sketch = Callable[[PairBatch], Tensor]


@contextmanager
def _sketching(model: nn.Module, scope: str, precision: Precision) -> Iterator[Sketch]:
    """How a batch becomes sketches: by a forward alone, or by every pair's gradient, sketched and forgotten."""
    if scope == STATES:
        states = StateSketches(model)

        def by_states(batch: PairBatch) -> Tensor:
            with no_graph(model), fresh_weights(model), precision():
                return states(batch)

        yield by_states
        return
    parameters = judging_parameters(model, scope)
    signs, bank, at_once = Signs.of(parameters), GradientBank(parameters), pairs_at_once(model)

    def by_gradients(batch: PairBatch) -> Tensor:
        fill(bank, model, [batch], precision, at_once=at_once)
        return signs.sketch(bank.parts(parameters), len(batch))

    with only(model, parameters):
        yield by_gradients


@dataclass(frozen=True)
class _Pass:
    """Batches of like length, one after the other."""

    model: nn.Module
    sketch: Sketch
    pad_id: int
    shared: bool
    ranks: Ranks

    def __call__(self, pairs: Sequence[EncodedPair]) -> Tensor:
        device = next(self.model.parameters()).device
        found = torch.zeros(len(pairs), SIZE)
        was_training = self.model.training
        self.model.eval()
        try:
            widths, rows = row_widths(pairs, self.shared), 1 if self.shared else 2
            every = list(length_groups(widths, rows, min(TOKENS_AT_ONCE, batch_tokens(self.model))))
            groups = every[self.ranks.here :: self.ranks.total]
            idle = idle_passes(self.model, len(groups))
            for group in groups:
                batch = collate([pairs[int(i)] for i in group], self.pad_id, self.shared).to(device)
                found[torch.from_numpy(group)] = units(self.sketch(batch))
            for _ in range(idle):
                self.sketch(idle_batch(collate(pairs[:1], self.pad_id, self.shared).to(device)))
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
