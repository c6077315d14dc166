"""Stress-test many pairs with a model as it is: anchor batches of a fixed size, gradients only as memory allows.

A probe is a table with a row a pair: what a step of GAPO would record of it, in a batch of so many pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from scipy.special import expit
from torch import Tensor, nn

from gapo.anchor.bank import GradientBank
from gapo.anchor.engine import Engine
from gapo.anchor.engines import SHARE_OF_FREE_MEMORY
from gapo.anchor.fill import fill, pairs_at_once
from gapo.anchor.gap import Direction, parameters_in_scope
from gapo.anchor.probe import GEOMETRY_COLUMNS, Geometry
from gapo.anchor.settings import AnchorSettings
from gapo.errors import InputError
from gapo.model.layout import choose_layout
from gapo.model.load import load_policy
from gapo.model.logps import PairLogps
from gapo.model.memory import available_memory
from gapo.model.perturb import global_norm
from gapo.pairs.collate import PairBatch, collate
from gapo.pairs.encode import EncodedPair

Progress = Callable[[Iterable[int]], Iterable[int]]


def no_progress(batches: Iterable[int]) -> Iterable[int]:
    return batches


@dataclass(frozen=True)
class ProbeSettings:
    """How pairs are probed, and which weight their gap would have.

    `batch_pairs` share an anchor. `exact` goes to the anchor; otherwise the gap is that of first order. Pairs are
    shuffled into batches by `seed`, the same ones for every model; None leaves them as they stand.
    `gradients` of so many pairs are kept at once; None: as many as half of the free memory holds.
    """

    batch_pairs: int = 64
    radius: float = 0.05
    beta: float = 2.5
    gamma: float = 0.1
    scope: str = "full"
    exact: bool = True
    seed: int | None = 0
    gradients: int | None = None


def probe_pairs(
    model: nn.Module,
    pairs: Sequence[EncodedPair],
    pad_id: int,
    settings: ProbeSettings | None = None,
    progress: Progress = no_progress,
) -> pa.Table:
    """Every pair once, in an anchor batch of exactly `batch_pairs`, in the order of `pairs`.

    Where the size does not divide, the last batch is filled up with pairs that are already in the table.
    Columns are those of a run's record without step and epoch, and `own_gap`, the first-order gap along the pair's own
    direction, rho * |G_i|; `group`, `batch_pairs` and `batch_grad_norm`, sqrt(sum |G_j|^2), tell of the batch.
    """
    settings = settings or ProbeSettings()
    prober = Prober(model, pairs, pad_id, settings)
    batches = anchor_batches(len(pairs), settings.batch_pairs, settings.seed)
    parts = []
    for k in progress(range(len(batches))):
        rows, new = batches[k]
        parts.append(prober.batch(k, rows).slice(len(rows) - new))
    return _in_order(parts, [rows[len(rows) - new :] for rows, new in batches], settings)


def probe_sizes(
    model: nn.Module,
    pairs: Sequence[EncodedPair],
    pad_id: int,
    sizes: Sequence[int],
    settings: ProbeSettings | None = None,
    progress: Progress = no_progress,
) -> dict[int, pa.Table]:
    """First-order probes of the same pairs in anchor batches of several sizes, each of which divides the largest.

    One pass over the pairs serves all sizes: G_i . G_j within the largest batch tells every smaller one.
    """
    settings = settings or ProbeSettings()
    largest = max(sizes)
    if any(size < 1 or largest % size for size in sizes):
        raise InputError(f"sizes of anchor batches must divide the largest, {largest}, not be {list(sizes)}")
    prober = Prober(model, pairs, pad_id, settings)
    batches = anchor_batches(len(pairs), largest, settings.seed)
    parts: dict[int, list[pa.Table]] = {size: [] for size in sizes}
    for k in progress(range(len(batches))):
        rows, new = batches[k]
        policy, gram = prober.gram(rows)
        for size in sizes:
            geometry, lengths = geometry_of_gram(gram, size, settings.radius)
            group = k * (largest // size) + np.arange(len(rows)) // size
            gap = (geometry.gap_self + geometry.gap_others).numpy()
            table = prober.table(rows, group, size, lengths, policy, gap, geometry)
            parts[size].append(table.slice(len(rows) - new))
    order = [rows[len(rows) - new :] for rows, new in batches]
    return {size: _in_order(parts[size], order, settings) for size in sizes}


def probe_models(
    models: Mapping[float, str | Path],
    pairs: Sequence[EncodedPair],
    pad_id: int,
    settings: ProbeSettings | None = None,
    progress: Progress = no_progress,
) -> pa.Table:
    """The same pairs probed by each of several models, for instance a run's checkpoints by their epoch, one at a time.

    The column `moment` holds the model's key.
    """
    parts = []
    for moment, name in models.items():
        model = load_policy(str(name), say=lambda _: None).model
        table = probe_pairs(model, pairs, pad_id, settings, progress)
        parts.append(table.append_column("moment", pa.array(np.full(table.num_rows, float(moment)))))
    return pa.concat_tables(parts)


def anchor_batches(pairs: int, size: int, seed: int | Sequence[int] | None) -> list[tuple[np.ndarray, int]]:
    """Rows of each anchor batch, and how many of them, its last ones, are new."""
    if not 1 <= size <= pairs:
        raise InputError(f"an anchor batch of {size} pairs needs as many pairs, and there are {pairs}")
    order = np.arange(pairs) if seed is None else np.random.default_rng(seed).permutation(pairs)
    ends = [*range(size, pairs, size), pairs]
    return [(order[end - size : end], end - before) for before, end in zip([0, *ends], ends, strict=False)]


def geometry_of_gram(gram: Tensor, size: int, radius: float) -> tuple[Geometry, np.ndarray]:
    """How pairs lie to the mean gradient of each `size` neighbours, and each batch's sqrt(sum |G_j|^2), by pair."""
    parts, lengths = [], []
    for start in range(0, len(gram), size):
        block = gram[start : start + size, start : start + size]
        norm = float(block.mean().clamp(min=0).sqrt())
        parts.append(Geometry.of(block.diagonal().sqrt(), block.mean(1), norm, radius))
        lengths.append(np.full(len(block), float(block.trace()) ** 0.5))
    return Geometry.cat(parts), np.concatenate(lengths)


class Prober:
    """A model with its bank, made once for all batches. `bank_dtype` None keeps gradients in their own type."""

    def __init__(
        self,
        model: nn.Module,
        pairs: Sequence[EncodedPair],
        pad_id: int,
        settings: ProbeSettings,
        bank_dtype: torch.dtype | None = None,
    ) -> None:
        self.model, self.pairs, self.pad_id, self.settings = model, pairs, pad_id, settings
        self.scope = parameters_in_scope(model, settings.scope)
        self.engine = Engine(AnchorSettings(radius=settings.radius, batches=1, scope=settings.scope))
        trained = tuple(p for p in model.parameters() if p.requires_grad)
        self.bank, self.at_once = GradientBank(trained, bank_dtype), pairs_at_once(model)
        self.room = settings.gradients or _that_fit(trained)
        self.shared = choose_layout(model, pairs, pad_id).shared
        self.device = trained[0].device

    def batch(self, number: int, rows: np.ndarray, exact: bool | None = None) -> pa.Table:
        """One anchor batch; `exact` in place of the settings' own."""
        policy, direction, norms, dots = self._direction(rows)
        geometry = Geometry.of(norms, dots, direction.norm, self.settings.radius)
        if self.settings.exact if exact is None else exact:
            batch = self.collated(rows)
            policy, anchor, _ = self.engine.at_anchor(self.model, [batch], policy, direction)
            gap = (policy.margin - anchor.margin).double().cpu().numpy()
        else:
            gap = (geometry.gap_self + geometry.gap_others).numpy()
        lengths = np.full(len(rows), float((norms**2).sum()) ** 0.5)
        return self.table(rows, np.full(len(rows), number), len(rows), lengths, policy, gap, geometry)

    def gram(self, rows: np.ndarray) -> tuple[PairLogps, Tensor]:
        if len(rows) > self.room:
            raise InputError(
                f"gradients of {len(rows)} pairs do not fit in memory, {self.room} do; probe smaller anchor batches"
            )
        policy = self.filled(rows)
        return policy, self.bank.gram(slice(0, len(rows)), self.scope)

    def table(
        self,
        rows: np.ndarray,
        group: np.ndarray,
        size: int,
        lengths: np.ndarray,
        policy: PairLogps,
        gap: np.ndarray,
        geometry: Geometry,
    ) -> pa.Table:
        """What is known of each pair of a batch."""
        logps = {field.name: getattr(policy, field.name).cpu() for field in fields(policy)}
        margin = policy.margin.double().cpu().numpy()
        named = {name: getattr(geometry, name).numpy() for name in GEOMETRY_COLUMNS}
        chosen = [self.pairs[int(i)] for i in rows]
        return pa.table(
            {
                "pair_id": [pair.id for pair in chosen],
                "margin": margin,
                "anchor_margin": margin - gap,
                "gap": gap,
                "weight": weight_of(gap, self.settings.beta, self.settings.gamma),
                "chosen_tokens": logps["chosen_tokens"].numpy(),
                "rejected_tokens": logps["rejected_tokens"].numpy(),
                "chosen_logp": logps["chosen"].double().numpy(),
                "rejected_logp": logps["rejected"].double().numpy(),
                "flipped": pa.array([pair.flipped for pair in chosen], pa.bool_()),
                **named,
                "own_gap": self.settings.radius * named["grad_norm"],
                "group": group,
                "batch_pairs": np.full(len(rows), size),
                "batch_grad_norm": lengths,
            }
        )

    def _direction(self, rows: np.ndarray) -> tuple[PairLogps, Direction, Tensor, Tensor]:
        """Log-probs, g, and each pair's |G_i| and G_i . g; two sweeps where only a part of the gradients has room."""
        parts = [rows[start : start + self.room] for start in range(0, len(rows), self.room)]
        found = []
        gradient: tuple[Tensor, ...] = ()
        for part in parts:
            policy = self.filled(part)
            sums = self.bank.sums(slice(0, len(part)), self.scope)
            scaled = tuple(mean * (len(part) / len(rows)) for mean in sums.gradient)
            gradient = tuple(a + b for a, b in zip(gradient, scaled, strict=True)) if gradient else scaled
            found.append((policy, sums.norms, sums.dots))
        dots = torch.cat([dots for _, _, dots in found])
        if len(parts) > 1:  # those were along each part's own mean
            dots = torch.cat([self._along(gradient, part) for part in parts])
        direction = Direction(self.scope, gradient, global_norm(gradient))
        return PairLogps.cat([each[0] for each in found]), direction, torch.cat([each[1] for each in found]), dots

    def _along(self, gradient: Sequence[Tensor], rows: np.ndarray) -> Tensor:
        self.filled(rows)
        return self.bank.along(gradient, slice(0, len(rows)), self.scope)

    def filled(self, rows: np.ndarray) -> PairLogps:
        """The log-probs of these pairs, whose gradients are now in the bank."""
        return fill(self.bank, self.model, [self.collated(rows)], at_once=self.at_once).detach()

    def collated(self, rows: np.ndarray) -> PairBatch:
        return collate([self.pairs[int(i)] for i in rows], self.pad_id, self.shared).to(self.device)


def weight_of(gap: np.ndarray, beta: float, gamma: float) -> np.ndarray:
    """beta * sigmoid(gamma - beta * gap)"""
    return np.asarray(beta * expit(gamma - beta * gap))


def _that_fit(trained: Sequence[nn.Parameter]) -> int:
    """How many pairs' gradients may be kept: the direction, a moved copy and a part of a sum come on top."""
    one = sum(p.numel() * p.element_size() for p in trained)
    room = SHARE_OF_FREE_MEMORY * available_memory(trained[0].device) - 3 * one
    return max(1, int(room // one))


def _in_order(parts: Sequence[pa.Table], rows: Sequence[np.ndarray], settings: ProbeSettings) -> pa.Table:
    """The rows of all batches as the pairs stand; how they were probed goes along."""
    table = pa.concat_tables(parts).take(pa.array(np.argsort(np.concatenate(rows)))).combine_chunks()
    said = {f"probe.{field.name}": str(getattr(settings, field.name)) for field in fields(settings)}
    return table.replace_schema_metadata(said)
