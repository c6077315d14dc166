"""`data.select`: train on the pairs that another run, or a probe, scored lowest or highest, or on as many at random.

    select: {from: 5f0c2b7a9e1d4c38, score: gap, keep: lowest, share: 0.3, seed: 0}

`from` is the hash of the scoring run, found beside this run's own folder, or the path of a run folder or of a file with
the columns `pair_id` and `score`. The hash is part of the recipe, so what was chosen is part of what identifies a run.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gapo.diagnostics.tables import column, first_seen, read_table
from gapo.errors import InputError, did_you_mean, shown
from gapo.pairs.pair import PairSet
from gapo.pairs.select import ENDS, select

logger = logging.getLogger("gapo")
DEFAULTS: dict[str, Any] = {"from": None, "score": "gap", "keep": "lowest", "share": None, "seed": 0}
_WORDS = {"from": "the hash or folder of a run, or a file of scores", "score": "the name of a column"}
_HASH = re.compile(r"[0-9a-f]{16}(-[a-z]+)?")  # of a recipe; a study's folders may have an ending
_NOTE = "environment.json"  # names the recipe's hash


def settled(content: Any, where: str) -> dict[str, Any]:
    """The complete section, in one order: equal selections have equal hashes."""
    if not isinstance(content, Mapping):
        raise InputError(
            f"{where}: data.select must say which pairs, for instance {{from: RUN, keep: lowest, share: 0.3}}, not "
            f"{shown(content)}"
        )
    for key in content:
        if key not in DEFAULTS:
            raise InputError(f"{where}: unknown key 'data.select.{key}'; {did_you_mean(str(key), DEFAULTS)}")
    section = {**DEFAULTS, **content}
    for key in ("from", "score"):
        if not isinstance(section[key], str) or not section[key]:
            raise InputError(f"{where}: data.select.{key} must be {_WORDS[key]}, not {shown(section[key])}")
    keep = section["keep"]
    if keep not in ENDS:
        raise InputError(f"{where}: unknown data.select.keep {keep!r}; {did_you_mean(str(keep), ENDS)}")
    share, seed = section["share"], section["seed"]
    if not isinstance(share, int | float) or isinstance(share, bool) or not 0 < share <= 1:
        raise InputError(f"{where}: data.select.share must be a number above 0 and at most 1, not {shown(share)}")
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise InputError(f"{where}: data.select.seed must be a whole number of at least 0, not {shown(seed)}")
    return section


def selected(pairs: PairSet, section: Mapping[str, Any], beside: Path | None) -> PairSet:
    """The pairs that the section asks for; pairs without a score are left out first, with a word."""
    scores = scores_from(section["from"], section["score"], beside)
    ids = pairs.ids
    scored = [i for i, name in enumerate(ids) if name in scores]
    if not scored:
        raise InputError(
            f"data.select: {section['from']} has scores of {len(scores)} pairs, but of none of these; score these first"
        )
    if len(scored) < len(ids):
        logger.warning(
            "%d of %d pairs have no %s in %s and are left out",
            len(ids) - len(scored), len(ids), section["score"], section["from"],
        )  # fmt: skip
        pairs = pairs.take(scored)
    return select(pairs, scores, section["share"], section["keep"], section["seed"])


def scores_from(source: str, score: str, beside: Path | None) -> dict[str, float]:
    """Scores by pair id: each pair's first in a run's record, or those of a file."""
    path = _found(source, beside)
    table = read_table(path)
    for name in ("pair_id", score):
        if name not in table.column_names:
            numeric = [field.name for field in table.schema if pa.types.is_floating(field.type)]
            raise InputError(f"data.select: {path} has no column {name!r}; {did_you_mean(name, numeric)}")
    table = first_seen(table)
    try:
        values = column(table, score)
    except (pa.ArrowException, TypeError):
        raise InputError(f"data.select: the column {score!r} of {path} holds no numbers; name another") from None
    kept = np.isfinite(values)
    ids = table["pair_id"].to_pylist()
    return {name: float(value) for name, value, known in zip(ids, values, kept, strict=True) if known}


def _found(source: str, beside: Path | None) -> Path:
    """The folder or file that is meant."""
    path = Path(source).expanduser()
    if path.exists():
        return path
    if not _HASH.fullmatch(source):
        raise InputError(f"data.select.from: {source} does not exist; give a run's hash or folder, or a file of scores")
    if beside is not None:
        if (beside / source).is_dir():
            return beside / source
        for note in sorted(beside.glob(f"*/{_NOTE}")):
            if _recipe_of(note) == source:
                return note.parent
    where = f"beside {beside}" if beside is not None else "without train.output_dir"
    raise InputError(f"data.select.from: no run with the hash {source} was found {where}; run it first")


def identity(section: Mapping[str, Any]) -> dict[str, Any]:
    """The section as far as it identifies a run: a scoring run is its hash, wherever its folder is."""
    name = Path(section["from"]).name
    return {**section, "from": name if _HASH.fullmatch(name) else section["from"]}


def _recipe_of(note: Path) -> str | None:
    try:
        return str(json.loads(note.read_text())["recipe"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
