"""How much of the gap is a pair's own share of the direction, over training."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from gapo.diagnostics.shares import self_share
from gapo.diagnostics.tables import column, known
from gapo.report.statistics import Numbers


def shares_over_training(table: pa.Table, bins: int = 20) -> Mapping[str, Numbers]:
    """In up to `bins` stretches of the steps: sum of own parts over sum of gaps, and quartiles over pairs.

    The pooled share stays meaningful where single gaps are near 0; stretches whose gaps sum to nothing are left out.
    """
    table = known(table, "step", "gap_self", "gap_others")
    step, own, others = (column(table, name) for name in ("step", "gap_self", "gap_others"))
    share = self_share(own, others)
    rows = []
    for part in np.array_split(np.unique(step), bins):
        here = (step >= part[0]) & (step <= part[-1]) if len(part) else np.zeros(len(step), dtype=bool)
        gap = float((own + others)[here].sum())
        single = share[here][np.isfinite(share[here])]
        if gap > 0 and len(single):
            low, high = np.quantile(single, [0.25, 0.75])
            rows.append((float(part.mean()), float(own[here].sum()) / gap, float(low), float(high)))
    columns = np.array(rows).reshape(-1, 4).T
    return dict(zip(("step", "pooled", "low", "high"), columns, strict=True))
