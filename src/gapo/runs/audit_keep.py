"""The part of a preference set that an audit finds stable, or unstable, or as many pairs at random."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gapo.diagnostics.signals import SUSPICION
from gapo.diagnostics.tables import column
from gapo.errors import InputError, did_you_mean
from gapo.pairs.files import kind_of
from gapo.pairs.originals import row_number, save_originals
from gapo.pairs.pair import PairSet
from gapo.pairs.select import select
from gapo.pairs.sources import PairSource

KEEPS = ("stable", "unstable", "random")
SCORES = ("gap", "weight", "gap_others", "margin", "grad_norm")


def refuse_keep(keep: str, by: str, fraction: float, out: Path | None, force: bool) -> Path:
    """What is wrong with a wish to keep pairs, before anything is scored; else where they go."""
    if keep not in KEEPS:
        raise InputError(f"unknown --keep {keep!r}; {did_you_mean(keep, KEEPS)}")
    if by not in SCORES:
        raise InputError(f"unknown --by {by!r}; {did_you_mean(by, SCORES)}")
    if not 0 < fraction <= 1:
        raise InputError(f"--fraction must lie above 0 and at most at 1, not {fraction:g}")
    if out is None:
        raise InputError("--keep needs a file to write to; write gapo audit DATA OUT.jsonl --keep stable")
    return refuse_file(out, force)


def refuse_file(out: Path, force: bool) -> Path:
    """A file of no kind we write, or one that is there already."""
    kind_of(out)
    if out.exists() and not force:
        raise InputError(f"{out} exists; add --force to overwrite it, or choose another name")
    return out


def end_of(keep: str, by: str) -> str:
    """Which end of a score is meant: stable is the end that `SUSPICION` does not suspect, so the lowest gaps."""
    if keep == "random":
        return "random"
    return "lowest" if (SUSPICION[by] > 0) == (keep == "stable") else "highest"


def kept_pairs(
    pairs: PairSet, table: pa.Table, keep: str = "stable", fraction: float = 0.7, by: str = "gap", seed: int = 0
) -> PairSet:
    """So large a share of the scored pairs, in their old order."""
    scores = _scores(table, by)
    scored = [place for place, name in enumerate(pairs.ids) if name in scores]
    if len(scored) < len(scores):
        raise InputError(
            f"the audit scored {len(scores):,} pairs, of which {len(scored):,} are in these data; give the data that "
            "were audited"
        )
    return select(pairs.take(scored), scores, fraction, end_of(keep, by), seed)


def save_kept(
    source: PairSource, pairs: PairSet, kept: PairSet, out: Path, split: str | None = None
) -> Mapping[str, Any]:
    """Write the rows of the kept pairs as they stand in the source; what was done, in plain values."""
    save_originals(source, [row_number(pair.source) for pair in kept], out, split)
    return {"file": str(out), "kept": len(kept), "of": len(pairs)}


def _scores(table: pa.Table, by: str) -> dict[str, float]:
    values = column(table, by)
    known = np.isfinite(values)
    ids = table["pair_id"].to_pylist()
    return {name: float(value) for name, value, finite in zip(ids, values, known, strict=True) if finite}
