"""The pairs of a run for the explorer: each once, as the run last saw it, with its history and its text."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gapo.diagnostics.shares import self_share
from gapo.diagnostics.tables import column
from gapo.report.pair_view import PairColumn, PairHistory, PairText, PairView, Value
from gapo.report.run_files import Run, number
from gapo.report.statistics import Numbers
from gapo.report.wording import counted

PAIRS_SHOWN = 20_000
TEXT_BUDGET = 24_000_000  # characters of all texts of a page
DIGITS = 5  # finer than anybody reads, and half the page
KNOBS = {"beta": 2.5, "gamma": 0.1}  # of GAPO, where the recipe leaves them to the objective
NUMBERS = (
    ("weight", "weight", "how much the pair counted: minus the slope of its loss in its margin"),
    ("gap", "gap", "margin here minus margin at the anchor: a large one means a brittle pair"),
    ("margin", "margin", "log-prob a token of the chosen response minus that of the rejected one"),
    ("loss", "loss", "the pair's loss"),
    ("grad_norm", "gradient norm", "norm of the gradient of the pair's margin"),
    ("alignment", "alignment", "cosine of the pair's gradient with the batch direction"),
    ("gap_self", "own gap", "the part of the first-order gap that is the pair's own share of the direction"),
    ("gap_others", "others' gap", "the part that the other pairs of the step bring; below 0 they pull against it"),
    ("self_share", "self share", "own gap over first-order gap: near 1 the pair is measured against itself"),
    ("curvature", "curvature", "first-order gap minus measured gap: the second-order term"),
    ("length_term", "1/|w| + 1/|l|", "large for short responses"),
    ("chosen_tokens", "chosen tokens", "tokens of the chosen response"),
    ("rejected_tokens", "rejected tokens", "tokens of the rejected response"),
    ("chosen_logp", "chosen log-prob", "summed over the response"),
    ("rejected_logp", "rejected log-prob", "summed over the response"),
    ("step", "last seen", "the step these numbers are from"),
)
HISTORY = ("weight", "gap", "margin", "loss", "self_share")
AS_TRAINED = (
    "Chosen and rejected are as the run was trained: of a flipped pair they stand the wrong way round, on purpose."
)


def run_pairs(run: Run) -> PairView | None:
    """The view; None where the run recorded no pairs."""
    if run.pairs is None or not run.pairs.num_rows:
        return None
    table = run.pairs.sort_by("step")  # stable enough: a pair is seen once a step
    ids, owner = _distinct(table)
    texts = texts_of(run.folder, ids)
    notes = ["Each pair as the run last saw it; every step it was seen at is in its history."]
    chosen = _shown(ids, texts)
    if len(chosen) < len(ids):
        kind = "those whose text was kept" if texts else "a random sample"
        notes.append(f"{counted(len(chosen), 'pair')} of {len(ids):,} are shown: {kind}.")
    last = np.zeros(len(ids), dtype=np.int64)
    last[owner] = np.arange(table.num_rows)
    values = _values(table)
    at = last[chosen]
    columns = [
        PairColumn(key, title, "number", rounded(values[key][at]), note)
        for key, title, note in NUMBERS
        if np.isfinite(values[key]).any()
    ]
    columns += _labels(column(table, "flipped")[at], [ids[i] for i in chosen], texts)
    weight = values["weight"][at]
    shown, cut = within_budget([texts.get(ids[i]) for i in chosen], weight)
    notes += _text_notes(texts, cut)
    history = _histories(table, values, owner, chosen)
    if not history:
        notes[0] = "Each pair was seen once; these are its numbers then."
    names = {each.key for each in columns}
    return PairView(
        ids=[str(ids[i]) for i in chosen],
        columns=columns,
        texts=[PairText(*row[:3]) if row else None for row in shown] if texts else (),
        history=history,
        colours=[key for key in ("flipped", "subset", "weight", "self_share") if key in names],
        across="margin" if "margin" in names else columns[0].key,
        up="gap" if "gap" in names else "weight",
        notes=notes,
        **(_knobs(run) if run.objective == "gapo" else {}),
    )


def _distinct(table: pa.Table) -> tuple[NDArray[Any], NDArray[np.int64]]:
    ids, owner = np.unique(np.array(table["pair_id"].to_pylist(), dtype=str), return_inverse=True)
    return ids, owner.astype(np.int64)


def _shown(ids: NDArray[Any], texts: Mapping[str, Any]) -> NDArray[np.int64]:
    """Places of the pairs to show, in order: those with a text first, a seeded sample of too many."""
    if len(ids) <= PAIRS_SHOWN:
        return np.arange(len(ids))
    wanted = [place for place, name in enumerate(ids) if name in texts] or range(len(ids))
    sample = random.Random(0).sample(wanted, PAIRS_SHOWN) if len(wanted) > PAIRS_SHOWN else wanted
    return np.array(sorted(sample))


def _values(table: pa.Table) -> dict[str, Numbers]:
    """Every column of the record, and what follows from them."""
    found = {name: column(table, name) for name in table.column_names if name not in ("pair_id", "flipped")}
    found |= {key: column(table, key) for key, _, _ in NUMBERS if key not in found}
    own, others = found["gap_self"], found["gap_others"]
    found["self_share"] = self_share(own, others)
    found["curvature"] = own + others - found["gap"]
    tokens = [np.where(found[f"{side}_tokens"] > 0, found[f"{side}_tokens"], np.nan) for side in ("chosen", "rejected")]
    found["length_term"] = 1 / tokens[0] + 1 / tokens[1]
    return found


def _labels(flipped: Numbers, ids: Sequence[str], texts: Mapping[str, tuple[str, ...]]) -> list[PairColumn]:
    found = []
    if np.isfinite(flipped).any():
        marks: list[Value] = [bool(mark) if np.isfinite(mark) else None for mark in flipped]
        found.append(PairColumn("flipped", "flipped", "truth", marks, "whether the label was turned round on purpose"))
    subsets: list[Value] = [texts[name][3] or None if name in texts else None for name in ids]
    if any(subsets):
        found.append(PairColumn("subset", "subset", "word", subsets, "the part of the data it comes from"))
    return found


def _histories(
    table: pa.Table, values: Mapping[str, Numbers], owner: NDArray[np.int64], chosen: NDArray[np.int64]
) -> list[PairHistory | None]:
    """All steps a pair was seen at; nothing where no pair was seen twice."""
    order = np.argsort(owner, kind="stable")
    counts = np.bincount(owner)
    if counts.max() < 2:
        return []
    ends = np.cumsum(counts)
    steps = column(table, "step").astype(np.int64)
    keys = [key for key in HISTORY if np.isfinite(values[key]).any()]
    found: list[PairHistory | None] = []
    for i in chosen:
        rows = order[ends[i] - counts[i] : ends[i]]
        found.append(PairHistory(steps[rows].tolist(), {key: rounded(values[key][rows]) for key in keys}))
    return found


def texts_of(folder: Path, ids: Sequence[str] | NDArray[Any], *, held_out: bool = False) -> dict[str, tuple[str, ...]]:
    """Prompt, chosen, rejected and subset by pair, of those of the ids whose text was kept."""
    try:
        table = pq.read_table(folder / "texts.parquet")
        if "held_out" in table.column_names:
            table = table.filter(pc.equal(table["held_out"], held_out))
        table = table.filter(pc.is_in(table["pair_id"], value_set=pa.array([str(name) for name in ids])))
        names = ("pair_id", "prompt", "chosen", "rejected", "subset")
        rows = zip(*(table[name].to_pylist() for name in names), strict=True)
    except (OSError, KeyError, TypeError, pa.ArrowException):
        return {}
    return {str(row[0]): tuple(str(part or "") for part in row[1:]) for row in rows}


def within_budget(rows: Sequence[Any], weight: Numbers) -> tuple[list[Any], int]:
    """The texts that fit on a page, those of the pairs at both ends of the weights first; and how many do not."""
    sizes = np.array([sum(map(len, row[:3])) if row else 0 for row in rows])
    if sizes.sum() <= TEXT_BUDGET:
        return list(rows), 0
    rank = np.argsort(np.argsort(np.nan_to_num(weight)))
    order = np.argsort(-np.abs(rank - (len(rank) - 1) / 2), kind="stable")
    fits = np.zeros(len(rows), dtype=bool)
    fits[order[np.cumsum(sizes[order]) <= TEXT_BUDGET]] = True
    return [row if fit else None for row, fit in zip(rows, fits, strict=True)], int((~fits & (sizes > 0)).sum())


def _text_notes(texts: Mapping[str, Any], cut: int) -> list[str]:
    if not texts:
        return ["The texts were not kept in this run (data.keep_texts, or an older version); ids lead to the data."]
    left = [f"{counted(cut, 'text')} of middling weight would not fit on the page and are left out."] if cut else []
    return [AS_TRAINED, *left]


def rounded(values: Numbers) -> list[Any]:
    """Floats of a few digits, None for what is not known."""
    known = np.isfinite(values)
    size = np.where(known & (values != 0), np.abs(values), 1.0)
    scale = 10.0 ** (DIGITS - 1 - np.floor(np.log10(size)))
    rounded = np.round(np.where(known, values, 0.0) * scale) / scale
    return [float(value) if sure else None for value, sure in zip(rounded, known, strict=True)]


def _knobs(run: Run) -> dict[str, float]:
    section = run.recipe.get("objective")
    given = section if isinstance(section, Mapping) else {}
    beta = number(given.get("beta")) or KNOBS["beta"]
    ratio = number(given.get("gamma_beta_ratio"))
    gamma = number(given.get("gamma"))
    return {"beta": beta, "gamma": gamma if gamma is not None else ratio * beta if ratio else KNOBS["gamma"]}
