"""The pairs of an audit as the explorer shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from gapo.pairs.pair import PairSet
from gapo.report.pair_view import PairColumn, PairText, PairView

NUMBERS = {
    "margin": ("margin", "log-prob per token of the chosen response minus that of the rejected one"),
    "gap": ("gap", "how far the margin falls at the anchor; mean over compositions"),
    "gap_spread": ("gap spread", "standard deviation of the gap over compositions"),
    "weight": ("weight", "beta * sigmoid(gamma - beta * gap); mean over compositions"),
    "weight_spread": ("weight spread", "standard deviation of the weight over compositions"),
    "loss": ("loss", "-log sigmoid(beta * gap - gamma); mean over compositions"),
    "grad_norm": ("gradient norm", "of the pair's margin"),
    "alignment": ("alignment", "cosine of the pair's gradient and its batch's direction; mean over compositions"),
    "gap_self": ("own term", "the pair's own share of its first-order gap"),
    "gap_others": ("others' term", "the other pairs' share of its first-order gap; below 0 they pull against it"),
    "self_share": ("self share", "own term over first-order gap"),
    "curvature": ("curvature", "first-order gap minus measured gap"),
    "length_term": ("length term", "1/|w| + 1/|l|"),
    "chosen_tokens": ("chosen tokens", ""),
    "rejected_tokens": ("rejected tokens", ""),
    "chosen_logp": ("chosen log-prob", "summed over tokens"),
    "rejected_logp": ("rejected log-prob", "summed over tokens"),
}
TRUTHS = {"flipped": ("flipped", "the label is known to be wrong"), "agree": ("judges agree", "a second judge agrees")}


def audit_view(table: pa.Table, about: Mapping[str, Any], pairs: PairSet | None, notes: Sequence[str] = ()) -> PairView:
    """Columns of the audit, with texts where the pairs are at hand."""
    columns = [PairColumn(key, title, "number", table[key].to_pylist(), note) for key, (title, note) in NUMBERS.items()]
    for key, (title, note) in TRUTHS.items():
        if table[key].null_count < table.num_rows:
            columns.append(PairColumn(key, title, "truth", table[key].to_pylist(), note))
    if table["subset"].null_count < table.num_rows:
        columns.append(PairColumn("subset", "subset", "word", table["subset"].to_pylist()))
    marked, worded = ([column.key for column in columns if column.kind == kind] for kind in ("truth", "word"))
    settings = about["plan"]["settings"]
    ids = table["pair_id"].to_pylist()
    return PairView(
        ids=ids,
        columns=columns,
        texts=_texts(ids, pairs),
        colours=(*marked, "gap_spread", "weight", "length_term", *worded),
        beta=settings["beta"],
        gamma=settings["gamma"],
        notes=notes,
    )


def _texts(ids: Sequence[str], pairs: PairSet | None) -> list[PairText | None]:
    if pairs is None:
        return []
    known = {pair.id: pair for pair in pairs}
    found = [known.get(name) for name in ids]
    return [None if pair is None else PairText(pair.prompt_text, pair.chosen, pair.rejected) for pair in found]
