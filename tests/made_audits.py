"""Audits made from a seed: what `gapo audit` leaves behind, without a model; every text in them is hostile."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gapo.diagnostics.audit_summary import summary
from gapo.diagnostics.auditing import COLUMNS, AuditSettings
from gapo.pairs.pair import PairSet, PreferencePair
from gapo.runs.audit_folder import Plan

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\u202e\x00"


def make_table(count: int, *, marked: bool = True, compositions: int = 3, seed: int = 0) -> pa.Table:
    """Pairs as an audit would leave them."""
    rng = np.random.default_rng(seed)
    gaps = 0.05 * np.exp(rng.normal(size=count)) + 0.01 * rng.normal(size=(compositions, count))
    columns = {name: rng.normal(size=count) for name in COLUMNS}
    columns |= {"gap": gaps.mean(0), "gap_spread": gaps.std(0), "length_term": 1 / rng.integers(1, 40, count)}
    columns |= {"weight": 1.3 - gaps.mean(0), "gap_self": np.abs(columns["gap_self"])}
    flipped = rng.random(count) < 0.3
    return pa.table(
        {
            "pair_id": [f"{HOSTILE}{i}" for i in range(count)],
            **columns,
            "gaps": list(gaps.T),
            "flipped": pa.array(flipped if marked else [None] * count, pa.bool_()),
            "agree": pa.array(~flipped if marked else [None] * count, pa.bool_()),
            "subset": pa.array([HOSTILE] * count if marked else [None] * count, pa.string()),
        }
    )


def about_of(table: pa.Table, **changed) -> dict:
    settings = AuditSettings(compositions=3, batch_pairs=8, block_pairs=16, bank="float32")
    return {
        "data": HOSTILE,
        "model": HOSTILE,
        "adapter": HOSTILE,
        "plan": Plan("d", "m", settings).written(),
        "spread_seen": 0.73,
        "counts": {"rows": table.num_rows + 2, "scored": table.num_rows},
        "left_out": [f"2 rows left out: {HOSTILE}"],
        "summary": summary(table, exact=False),
        "seconds": {"estimate": 10.0, "scoring": 12.0, "all": 14.0},
        "environment": {"command": ["gapo", "audit", HOSTILE], "seed": 0, "packages": {"gapo": "0"}},
        **changed,
    }


def make_pairs(table: pa.Table) -> PairSet:
    return PairSet(tuple(PreferencePair(HOSTILE, HOSTILE, "b", id=name) for name in table["pair_id"].to_pylist()))
