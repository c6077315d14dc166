"""A pair against itself: how much of its gap is its own share of the direction, and what orthogonal gradients give.

With g the mean of n gradients, `n^2 |g|^2 = sum |G_i|^2 * (1 + (n - 1) * c)`, where c is the mean cosine of two pairs'
gradients, weighted by their norms. So the self share of a batch is `1 / (1 + (n - 1) * c)`: 1 for orthogonal gradients.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gapo.diagnostics.intervals import DRAWS, Estimate, Numbers, bootstrap_all
from gapo.diagnostics.ranking import log_spread, rank_correlation, top_overlap
from gapo.diagnostics.tables import column


def self_share(gap_self: Numbers, gap_others: Numbers) -> Numbers:
    """A pair's own part of its first-order gap; NaN where the gap is not above 0 and has no parts."""
    gap = gap_self + gap_others
    return np.where(gap > 0, gap_self / np.where(gap > 0, gap, 1), np.nan)


def gap_parts(gap_self: Numbers, gap_others: Numbers) -> tuple[float, float]:
    """Which part of the gap's variance over pairs each term brings: cov(term, gap) / var(gap); they add up to 1.

    A pair's self share is its own term over its gap, so it goes with the gap by its making; this does not.
    """
    centred = gap_self - gap_self.mean(), gap_others - gap_others.mean()
    gap = centred[0] + centred[1]
    spread = float(gap @ gap)
    if spread == 0:
        return float("nan"), float("nan")
    return float(centred[0] @ gap) / spread, float(centred[1] @ gap) / spread


def share_expected(pairs: int | NDArray[np.int64], cosine: float) -> Numbers:
    """The self share of an anchor batch of so many pairs at this mean cosine."""
    return np.asarray(1 / (1 + (np.asarray(pairs) - 1) * cosine), dtype=np.float64)


@dataclass(frozen=True)
class SelfShare:
    """The self share of anchor batches of one size."""

    batch_pairs: int
    pairs: int
    pooled: Estimate  # sum of own parts / sum of gaps: stays meaningful where single gaps are near 0
    median: Estimate  # over pairs with a gap above 0
    cosine: Estimate  # the mean cosine that the pooled share stands for
    variance: Estimate  # part of the gap's variance over pairs that own terms bring
    alignment: Estimate  # median
    orthogonal_alignment: float  # median, were gradients of these norms orthogonal
    equal_alignment: float  # 1/sqrt(n): orthogonal and of equal norms


def self_shares(table: pa.Table, *, draws: int = DRAWS, seed: int = 0) -> SelfShare:
    """From a probe's table; batches are resampled whole, because their pairs share a direction."""
    group, size = column(table, "group"), int(column(table, "batch_pairs").max())
    columns = [column(table, name) for name in ("gap_self", "gap_others", "alignment")]

    def of(own: Numbers, others: Numbers, alignment: Numbers) -> list[float]:
        share = self_share(own, others)
        pooled = float(own.sum() / (own + others).sum())
        median = float(np.median(share[np.isfinite(share)])) if np.isfinite(share).any() else float("nan")
        cosine = (1 / pooled - 1) / max(size - 1, 1)
        return [pooled, median, cosine, gap_parts(own, others)[0], float(np.nanmedian(alignment))]

    found = bootstrap_all(of, *columns, clusters=group, draws=draws, seed=seed)
    alone = float(np.nanmedian(column(orthogonal(table), "alignment")))
    pooled, median, cosine, variance, alignment = found
    return SelfShare(size, table.num_rows, pooled, median, cosine, variance, alignment, alone, size**-0.5)


def orthogonal(table: pa.Table) -> pa.Table:
    """The same pairs, were their gradients orthogonal: `alignment = |G_i| / sqrt(sum |G_j|^2)`, `gap_others = 0`."""
    alignment = column(table, "grad_norm") / column(table, "batch_grad_norm")
    own = column(table, "own_gap") * alignment
    changed = {"alignment": alignment, "gap_self": own, "gap_others": np.zeros_like(own)}
    for name, values in changed.items():
        table = table.set_column(table.column_names.index(name), name, pa.array(values))
    return table


@dataclass(frozen=True)
class ProbeSummary:
    """The batch probe against each pair's own direction, to first order: rho * |G_i| * alignment, and rho * |G_i|."""

    pairs: int
    batches: int
    positive: Estimate  # share of pairs whose alignment is above 0
    alignment: Estimate  # median
    spearman: Estimate
    top_overlap: Estimate  # of the top 20 %
    norm_spread: Estimate  # standard deviation of the logarithm
    alignment_spread: Estimate


def probe_summary(table: pa.Table, *, draws: int = DRAWS, seed: int = 0) -> ProbeSummary:
    """What the paper reports of 1,984 pairs in 31 batches; `probe_summary(orthogonal(table))` is what chance gives."""
    group = column(table, "group")
    names = ("alignment", "grad_norm", "gap_self", "gap_others", "own_gap")
    columns = [column(table, name) for name in names]
    found = bootstrap_all(_summary, *columns, clusters=group, draws=draws, seed=seed)
    return ProbeSummary(table.num_rows, len(np.unique(group)), *found)


def _summary(alignment: Numbers, norm: Numbers, own: Numbers, others: Numbers, own_gap: Numbers) -> list[float]:
    shared = own + others
    return [
        float((alignment > 0).mean()),
        float(np.nanmedian(alignment)),
        rank_correlation(shared, own_gap),
        top_overlap(shared, own_gap),
        log_spread(norm),
        log_spread(alignment),
    ]
