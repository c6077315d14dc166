"""Score pairs with a model as it is, over several random compositions of the anchor batch.

A block's gradients are computed once. G_i . G_j then tells the direction's length, and every pair's first-order gap, in
any composition of the block; the exact gap takes one more forward at each anchor. Where memory does not hold a block's
gradients they are computed anew for every composition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
import pyarrow as pa
import torch
from scipy.special import log_expit
from torch import nn

from gapo.anchor.gap import Direction
from gapo.anchor.probe import GEOMETRY_COLUMNS, Geometry
from gapo.diagnostics.compositions import Rows, blocks_of, composition
from gapo.diagnostics.intervals import Numbers
from gapo.diagnostics.probing import Prober, ProbeSettings, geometry_of_gram, weight_of
from gapo.diagnostics.shares import self_share
from gapo.diagnostics.tables import column
from gapo.errors import InputError
from gapo.model.logps import PairLogps
from gapo.model.memory import available_memory
from gapo.model.passes import forward
from gapo.model.perturb import global_norm
from gapo.pairs.collate import row_widths
from gapo.pairs.encode import EncodedPair

SHARE_OF_MEMORY = 0.75  # of what is free: an audit keeps no optimiser and few activations
BATCHES_A_BLOCK = 4  # more let pairs meet more others, and cost a longer sum for each two of them
ROOMY = 1.5  # anchor batches that a block must hold, or compositions are nearly the same
BANKS = {"float32": None, "bfloat16": torch.bfloat16, "none": None}
OVERHEAD = 1.25  # of sums and files over gradients and forwards
KNOWN = ("margin", "chosen_tokens", "rejected_tokens", "chosen_logp", "rejected_logp")
COLUMNS = (
    "margin", "gap", "gap_spread", "weight", "weight_spread", "loss", "grad_norm", "alignment", "gap_self",
    "gap_others", "self_share", "curvature", "length_term", "chosen_tokens", "rejected_tokens", "chosen_logp",
    "rejected_logp",
)  # fmt: skip


@dataclass(frozen=True)
class AuditSettings:
    """How pairs are scored. None leaves a choice to the free memory.

    The gap is that of first order, and measured at the anchor in the first composition, for the curvature; `exact`
    measures it in every composition. `bank` is the type gradients are kept in: float32, bfloat16 (each to
    0.2 %), or none, where they are computed anew for every composition.
    """

    compositions: int = 4
    batch_pairs: int = 32
    radius: float = 0.05
    beta: float = 2.5
    gamma: float = 0.1
    scope: str = "full"
    seed: int = 0
    exact: bool = False
    block_pairs: int | None = None
    bank: str | None = None

    def __post_init__(self) -> None:
        for name in ("compositions", "batch_pairs"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be 1 or more, not {getattr(self, name)}")
        for name in ("radius", "beta"):
            if not (np.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise InputError(f"{name} must be a number above 0, not {getattr(self, name)}")
        if self.block_pairs is not None and self.block_pairs < 1:
            raise InputError(f"block_pairs must be 1 or more, not {self.block_pairs}")
        if self.bank is not None and self.bank not in BANKS:
            raise InputError(f"bank must be one of {', '.join(BANKS)}, not {self.bank!r}")

    @property
    def measured(self) -> int:
        """In how many compositions the gap is measured at the anchor."""
        return self.compositions if self.exact else 1

    def settled(self, model: nn.Module, pairs: int, processes: int = 1) -> AuditSettings:
        """With every choice made: for this model, so many pairs, and processes that share the memory."""
        batch = min(self.batch_pairs, pairs)
        wanted = min(self.block_pairs or BATCHES_A_BLOCK * batch, pairs)
        if wanted < batch:
            raise InputError(f"a block of {wanted} pairs holds no anchor batch of {batch}; raise --block-pairs")
        enough = min(wanted, int(ROOMY * batch)) if self.block_pairs is None else wanted
        room = {name: _room(model, name, processes) for name in ("float32", "bfloat16")}
        names = [name for name in room if self.bank in (None, name)]
        whole = [name for name in names if room[name] >= wanted]
        bank = next(iter(whole or [name for name in reversed(names) if room[name] >= enough]), "none")
        block = wanted if bank == "none" else min(wanted, room[bank])
        return replace(self, batch_pairs=batch, block_pairs=block, bank=bank)


class BlockScorer:
    """A model and the blocks of its audit; `settings` are settled."""

    def __init__(self, model: nn.Module, pairs: Sequence[EncodedPair], pad_id: int, settings: AuditSettings) -> None:
        assert settings.block_pairs is not None
        assert settings.bank is not None
        self.settings, self.model, self.pairs = settings, model, pairs
        kept = None if settings.bank == "none" else settings.block_pairs
        probe = ProbeSettings(
            settings.batch_pairs, settings.radius, settings.beta, settings.gamma, settings.scope, gradients=kept
        )
        self.prober = Prober(model, pairs, pad_id, probe, BANKS[settings.bank])
        self.blocks = blocks_of(len(pairs), settings.block_pairs, settings.batch_pairs, settings.seed)

    def table(self, number: int) -> pa.Table:
        """The pairs of one block; the column `row` has their places among all."""
        rows, new = self.blocks[number]
        found = self._recomputed(number, rows) if self.settings.bank == "none" else self._from_gram(number, rows)
        return self._columns(rows, found).slice(len(rows) - new)

    def expected_seconds(self, numbers: Sequence[int]) -> float:
        """About how long these blocks will take, from a few pairs of different lengths."""
        widths = row_widths(self.pairs, self.prober.shared)
        few = 3 if self.prober.at_once == 1 else 32
        order = np.argsort(widths, kind="stable")
        sample = order[np.linspace(0, len(order) - 1, min(few, len(order))).astype(np.int64)]
        self.prober.filled(sample[:1])  # the first pass of a model is slower than the others
        start = perf_counter()
        self.prober.filled(sample)
        middle = perf_counter()
        with torch.no_grad():
            forward(self.model, [self.prober.collated(sample)])
        gradients, measuring = middle - start, perf_counter() - middle
        sweeps = self.settings.compositions if self.settings.bank == "none" else 1
        work = sum(float(widths[self.blocks[k][0]].sum()) for k in numbers) / float(widths[sample].sum())
        return OVERHEAD * work * (sweeps * gradients + self.settings.measured * measuring)

    def _from_gram(self, block: int, rows: Rows) -> _Found:
        settings = self.settings
        policy, gram = self.prober.gram(rows)
        found = _Found.empty(len(rows), settings.compositions)
        found.know(np.arange(len(rows)), policy)
        for c in range(settings.compositions):
            for members, new in composition(len(rows), settings.batch_pairs, settings.seed, block, c):
                fresh = members[len(members) - new :]
                geometry, _ = geometry_of_gram(gram[members][:, members], len(members), settings.radius)
                found.put(c, fresh, geometry[slice(len(members) - new, None)])
                if c < settings.measured:
                    found.measured[c, fresh] = self._measured(rows, members, fresh, policy)
        return found

    def _measured(self, rows: Rows, members: Rows, fresh: Rows, policy: PairLogps) -> Numbers:
        """M_i(theta) - M_i(theta~) of the fresh ones, the direction being that of all members."""
        share = torch.zeros(len(rows), dtype=torch.float64)
        share[torch.from_numpy(members)] = 1 / len(members)
        gradient = tuple(self.prober.bank.weighted(share, scope=self.prober.scope))
        direction = Direction(self.prober.scope, gradient, global_norm(gradient))
        batch, home = self.prober.collated(rows[fresh]), policy[torch.from_numpy(fresh).to(policy.chosen.device)]
        home, anchor, _ = self.prober.engine.at_anchor(self.model, [batch], home, direction)
        return (home.margin - anchor.margin).double().cpu().numpy()

    def _recomputed(self, block: int, rows: Rows) -> _Found:
        """Every composition with gradients of its own, as many at once as there is room for."""
        settings = self.settings
        found = _Found.empty(len(rows), settings.compositions)
        for c in range(settings.compositions):
            for members, new in composition(len(rows), settings.batch_pairs, settings.seed, block, c):
                fresh = members[len(members) - new :]
                table = self.prober.batch(0, rows[members], exact=c < settings.measured).slice(len(members) - new)
                for name, values in found.known.items():
                    values[fresh] = column(table, name)
                found.put(c, fresh, Geometry(*(torch.tensor(column(table, name)) for name in GEOMETRY_COLUMNS)))
                if c < settings.measured:
                    found.measured[c, fresh] = column(table, "gap")
        return found

    def _columns(self, rows: Rows, found: _Found) -> pa.Table:
        settings = self.settings
        first = found.own + found.others
        gaps = found.measured if settings.exact else first
        weights = weight_of(gaps, settings.beta, settings.gamma)
        own, others = found.own.mean(0), found.others.mean(0)
        named = {
            **found.known,
            "gap": gaps.mean(0),
            "gap_spread": _spread(gaps),
            "weight": weights.mean(0),
            "weight_spread": _spread(weights),
            "loss": -log_expit(settings.beta * gaps - settings.gamma).mean(0),
            "grad_norm": found.norms,
            "alignment": found.alignment.mean(0),
            "gap_self": own,
            "gap_others": others,
            "self_share": self_share(own, others),
            "curvature": (first - found.measured)[: settings.measured].mean(0),
            "length_term": 1 / found.known["chosen_tokens"] + 1 / found.known["rejected_tokens"],
            **{name: found.known[name].astype(np.int64) for name in ("chosen_tokens", "rejected_tokens")},
        }
        chosen = [self.pairs[int(i)] for i in rows]
        return pa.table(
            {
                "row": pa.array(rows),
                "pair_id": [pair.id for pair in chosen],
                **{name: pa.array(named[name], from_pandas=True) for name in COLUMNS},  # NaN is null: not known
                "gaps": pa.array(list(gaps.T), pa.list_(pa.float64())),
                "flipped": pa.array([pair.flipped for pair in chosen], pa.bool_()),
            }
        )


@dataclass
class _Found:
    """What is known of a block so far: log-probs, norms, and a row a composition of what depends on the batch."""

    known: dict[str, Numbers]
    norms: Numbers
    alignment: Numbers
    own: Numbers
    others: Numbers
    measured: Numbers

    @staticmethod
    def empty(pairs: int, compositions: int) -> _Found:
        known = {name: np.full(pairs, np.nan) for name in KNOWN}
        return _Found(known, np.full(pairs, np.nan), *(np.full((compositions, pairs), np.nan) for _ in range(4)))

    def know(self, places: Rows, logps: PairLogps) -> None:
        """Log-probs of some of the pairs."""
        sides = (logps.margin, logps.chosen_tokens, logps.rejected_tokens, logps.chosen, logps.rejected)
        for name, side in zip(KNOWN, sides, strict=True):
            self.known[name][places] = side.double().cpu().numpy()

    def put(self, number: int, places: Rows, geometry: Geometry) -> None:
        """How pairs lie to the direction of their batch in this composition."""
        self.norms[places] = geometry.grad_norm.numpy()
        self.alignment[number, places] = geometry.alignment.numpy()
        self.own[number, places] = geometry.gap_self.numpy()
        self.others[number, places] = geometry.gap_others.numpy()


def _spread(values: Numbers) -> Numbers:
    """Standard deviation over compositions; nothing is known from one."""
    return values.std(0, ddof=1) if len(values) > 1 else np.full(values.shape[1], np.nan)


def _room(model: nn.Module, bank: str, processes: int) -> int:
    """Of how many pairs the gradients fit; a direction, a moved copy and a part of a sum come on top."""
    trained = [p for p in model.parameters() if p.requires_grad]
    one = sum(p.numel() * p.element_size() for p in trained)
    kept = one if bank == "float32" else sum(p.numel() * 2 for p in trained)
    free = SHARE_OF_MEMORY * available_memory(trained[0].device) / processes - 3 * one
    return max(0, int(free // max(1, kept)))
