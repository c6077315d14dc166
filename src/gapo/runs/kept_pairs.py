"""What a run keeps of its pairs beside the record: how each held-out pair came out, and the texts a page can show."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gapo.diagnostics.intervals import Numbers
from gapo.pairs.pair import PairSet, Prompt
from gapo.storage import whole_file
from gapo.training.dataset import EncodedPairs

HELD_OUT, TEXTS = "held_out.parquet", "texts.parquet"
TEXTS_KEPT, HELD_OUT_TEXTS_KEPT = 20_000, 5_000  # pairs a page can show
OUTCOMES = pa.schema(
    [
        ("pair_id", pa.string()),
        ("prompt_id", pa.string()),  # pairs of one prompt are not independent
        ("subset", pa.string()),
        ("gain_before", pa.float64()),  # reward of the chosen response minus reward of the rejected one
        ("gain_after", pa.float64()),
        ("margin_before", pa.float64()),
        ("margin_after", pa.float64()),
        ("chosen_tokens", pa.int64()),
        ("rejected_tokens", pa.int64()),
    ]
)
TEXT_SCHEMA = pa.schema(
    [
        ("pair_id", pa.string()),
        ("prompt", pa.string()),
        ("chosen", pa.string()),
        ("rejected", pa.string()),
        ("subset", pa.string()),
        ("held_out", pa.bool_()),
    ]
)
Outcomes = Mapping[str, Numbers]  # gain, margin and tokens of every held-out pair


def write_before(folder: Path, pairs: EncodedPairs, found: Outcomes) -> None:
    """How the start model does on each held-out pair."""
    nothing = np.full(len(pairs), np.nan)
    _write_outcomes(folder, pairs, found, (found["gain"], found["margin"]), (nothing, nothing))


def write_after(folder: Path, pairs: EncodedPairs, found: Outcomes) -> None:
    """How the trained model does, beside what was written before; a run begun without that has it missing."""
    _write_outcomes(folder, pairs, found, _before(folder, pairs), (found["gain"], found["margin"]))


def _before(folder: Path, pairs: EncodedPairs) -> tuple[Numbers, Numbers]:
    nothing = np.full(len(pairs), np.nan)
    try:
        table = pq.read_table(folder / HELD_OUT, schema=OUTCOMES)
    except (OSError, pa.ArrowException):
        return nothing, nothing
    if table["pair_id"].to_pylist() != _ids(pairs):
        return nothing, nothing
    gain, margin = (np.asarray(table[name].to_numpy()) for name in ("gain_before", "margin_before"))
    return gain, margin


def _write_outcomes(
    folder: Path,
    pairs: EncodedPairs,
    found: Outcomes,
    before: tuple[Numbers, Numbers],
    after: tuple[Numbers, Numbers],
) -> None:
    texts = list(pairs.pairs) if pairs.pairs is not None else [None] * len(pairs)
    columns: dict[str, Any] = {
        "pair_id": _ids(pairs),
        "prompt_id": [prompt_id(pair.prompt) if pair else None for pair in texts],
        "subset": [pair.subset if pair else None for pair in texts],
        "gain_before": before[0],
        "gain_after": after[0],
        "margin_before": before[1],
        "margin_after": after[1],
        "chosen_tokens": found["chosen_tokens"],
        "rejected_tokens": found["rejected_tokens"],
    }
    arrays = [pa.array(columns[field.name], type=field.type, from_pandas=True) for field in OUTCOMES]  # NaN: null
    with whole_file(folder / HELD_OUT) as part:
        pq.write_table(pa.Table.from_arrays(arrays, schema=OUTCOMES), part, compression="zstd")


def _ids(pairs: EncodedPairs) -> list[str]:
    return [pair.id for pair in pairs.encoded]


def prompt_id(prompt: Prompt) -> str:
    """16 hex digits, the same wherever the prompt stands."""
    return hashlib.blake2b(json.dumps(prompt).encode(), digest_size=8).hexdigest()


def write_texts(folder: Path, train: PairSet | None, evaluation: PairSet | None, seed: int) -> None:
    """The texts a page can show, labels as trained on; of more pairs than that a random but seeded sample.

    A run that goes on has its texts already and keeps them.
    """
    if (folder / TEXTS).is_file():
        return
    rows = _rows(train, TEXTS_KEPT, seed, held_out=False) + _rows(evaluation, HELD_OUT_TEXTS_KEPT, seed, held_out=True)
    with whole_file(folder / TEXTS) as part:
        pq.write_table(pa.Table.from_pylist(rows, schema=TEXT_SCHEMA), part, compression="zstd")


def _rows(pairs: PairSet | None, limit: int, seed: int, *, held_out: bool) -> list[dict[str, Any]]:
    if pairs is None:
        return []
    if len(pairs) > limit:
        pairs = pairs.take(sorted(random.Random(seed).sample(range(len(pairs)), limit)))
    return [
        {
            "pair_id": pair.id,
            "prompt": pair.prompt_text,
            "chosen": pair.chosen,
            "rejected": pair.rejected,
            "subset": pair.subset,
            "held_out": held_out,
        }
        for pair in pairs
    ]


def forget_texts(folder: Path) -> None:
    """The run was told not to keep them."""
    (folder / TEXTS).unlink(missing_ok=True)
