"""An audit in a few numbers: how large gaps are, what they follow, and how far they depend on the batch."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

from gapo.diagnostics.intervals import Estimate, Numbers
from gapo.diagnostics.ranking import rank_correlation
from gapo.diagnostics.shares import gap_parts
from gapo.diagnostics.signals import SUSPICION, Finder, finders
from gapo.diagnostics.tables import column

QUANTILES = (0.1, 0.5, 0.9)
SIGNALS = tuple(SUSPICION)
TRUTHS = ("flipped", "disagree")


def compositions_of(table: pa.Table) -> Numbers:
    """The gaps of every composition: a row a composition, a column a pair."""
    gaps = table["gaps"].combine_chunks()
    return np.asarray(gaps.flatten().to_numpy(zero_copy_only=False), dtype=np.float64).reshape(table.num_rows, -1).T


def orders_between(table: pa.Table) -> list[float]:
    """Spearman's correlation of the gaps of every two compositions."""
    gaps = compositions_of(table)
    gaps = gaps[:, np.isfinite(gaps).all(0)]
    return [rank_correlation(one, other) for one, other in combinations(gaps, 2)]


def marks_of_truth(table: pa.Table, truth: str) -> Numbers:
    """1 for a pair not to be trusted, 0 for one that is, NaN where nobody knows."""
    return column(table, "flipped") if truth == "flipped" else 1 - column(table, "agree")


def found_by(table: pa.Table) -> dict[str, list[Finder]]:
    """How well each signal finds flipped labels, and disputed ones, where there are such and others."""
    found = {}
    for truth in TRUTHS:
        marks = marks_of_truth(table, truth)
        known = marks[np.isfinite(marks)]
        if len(known) and 0 < known.sum() < len(known):
            found[truth] = finders(table, marks, SIGNALS)
    return found


def summary(table: pa.Table, exact: bool) -> dict[str, Any]:
    """Plain values for audit.json; None where nothing is known."""
    orders = orders_between(table)
    own, others = column(table, "gap_self"), column(table, "gap_others")
    first = own + others
    finite = np.isfinite(first)
    measured = column(table, "gap") if exact else compositions_of(table)[0] - column(table, "curvature")
    estimate = first if exact else compositions_of(table)[0]
    margin = column(table, "margin")
    return _plain(
        {
            "pairs": table.num_rows,
            "not_finite": int((~np.isfinite(column(table, "gap"))).sum()),
            "margin_above_zero": float((margin > 0).mean()),
            "gap": _quantiles(column(table, "gap")),
            "gap_below_zero": float((column(table, "gap") < 0).mean()),
            "gap_spread": _quantiles(column(table, "gap_spread")),
            "weight": _quantiles(column(table, "weight")),
            "weight_spread": _quantiles(column(table, "weight_spread")),
            "order_between_compositions": {
                "mean": float(np.mean(orders)) if orders else None,
                "least": min(orders, default=None),
            },
            "self_share": float(np.nansum(own) / np.nansum(first)) if np.nansum(first) > 0 else None,
            "own_part_of_variance": gap_parts(own[finite], others[finite])[0] if finite.any() else None,
            "weight_and_length": _ranks(column(table, "weight"), column(table, "length_term")),
            "gap_and_margin": _ranks(column(table, "gap"), margin),
            "first_order_and_measured": _ranks(estimate, measured),
            "found": {truth: [_row(finder) for finder in found] for truth, found in found_by(table).items()},
        }
    )


def _row(finder: Finder) -> dict[str, Any]:
    area: Estimate = finder.area
    return {
        "signal": finder.signal,
        "area": area.value,
        "low": area.low,
        "high": area.high,
        "pairs": finder.pairs,
        "marked": finder.marked,
    }


def _quantiles(values: Numbers) -> dict[str, float | None]:
    known = values[np.isfinite(values)]
    found = np.quantile(known, QUANTILES) if len(known) else [None] * len(QUANTILES)
    named = (("low", "median", "high"), found)
    return {name: None if value is None else float(value) for name, value in zip(*named, strict=True)}


def _ranks(left: Numbers, right: Numbers) -> float:
    known = np.isfinite(left) & np.isfinite(right)
    return rank_correlation(left[known], right[known])


def _plain(value: Any) -> Any:
    """NaN is no JSON."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
