"""What the probe of a real model sees: gaps by the size of the anchor batch, first order and exact, fp32 and bf16."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapo.studies.rows import Row, Rows
from gapo.studies.store import StoredRun, takes

if TYPE_CHECKING:
    import pyarrow as pa

SIZES = (8, 16, 32, 64)
PAIRS = 64
LOW_SIZE = 16  # of the anchor batch that is also probed with weights in bf16


@takes(12)
def probed_by_size(run: StoredRun) -> Rows:
    """One exact probe for each size of the anchor batch, and one of a model whose weights are bf16."""
    import torch

    from gapo.diagnostics.probing import probe_pairs
    from gapo.studies.probes import probed, settings_of, trained_model

    data = probed(run)
    model = (trained_model(run) if run.evals else data.start).eval()
    pairs = data.pairs[:PAIRS]
    sizes = [size for size in SIZES if size <= len(pairs)]
    tables = {size: probe_pairs(model, pairs, data.pad_id, settings_of(run, size)) for size in sizes}
    rows = [{"what": "size", "batch_pairs": size, **summary(table)} for size, table in tables.items()]
    low = min(LOW_SIZE, sizes[-1])
    in_bf16 = probe_pairs(model.to(torch.bfloat16), pairs, data.pad_id, settings_of(run, low))  # type: ignore[arg-type]
    return [*rows, {"what": "bf16", "batch_pairs": low, **against(in_bf16, tables[low])}]


def summary(table: pa.Table) -> Row:
    """Alignment, self share, ranks, length, and how near the first order is to the measured gap."""
    import numpy as np
    from scipy.stats import spearmanr

    from gapo.diagnostics.shares import probe_summary, self_shares
    from gapo.diagnostics.signals import signal
    from gapo.diagnostics.tables import column
    from gapo.studies.probes import VALUES_ONLY

    ranks, share = probe_summary(table, draws=VALUES_ONLY), self_shares(table, draws=VALUES_ONLY)
    gap, first_order = column(table, "gap"), column(table, "gap_self") + column(table, "gap_others")
    return {
        "alignment": ranks.alignment.value,
        "orthogonal_alignment": share.orthogonal_alignment,
        "positive": ranks.positive.value,
        "spearman": ranks.spearman.value,
        "top_overlap": ranks.top_overlap.value,
        "self_share": share.pooled.value,
        "cosine": share.cosine.value,
        "length_correlation": float(spearmanr(column(table, "weight"), signal(table, "length_term")).statistic),
        "first_order_correlation": float(np.corrcoef(first_order, gap)[0, 1]),
        "first_order_ratio": float(first_order.mean() / gap.mean()),
    }


def against(low: pa.Table, full: pa.Table) -> Row:
    """Gaps of a model in bf16 beside those in fp32: correlation, and mean over mean."""
    import numpy as np

    from gapo.diagnostics.tables import column

    gap, full_gap = column(low, "gap"), column(full, "gap")
    return {
        "gap_correlation": float(np.corrcoef(gap, full_gap)[0, 1]),
        "gap_ratio": float(gap.mean() / full_gap.mean()),
        "weight_correlation": float(np.corrcoef(column(low, "weight"), column(full, "weight"))[0, 1]),
    }
