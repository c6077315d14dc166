"""Pairs that two judges have decided: the first one's choice is the label, `subset` says whether the second agrees."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from gapo.errors import InputError
from gapo.pairs.files import read_path
from gapo.pairs.formats import load_pairs
from gapo.pairs.judges_wheel import AGREE, DISAGREE, NAME
from gapo.pairs.pair import BadRow, PairSet
from gapo.pairs.store import read_pairs
from gapo.pairs.table import Row, Table

SECOND_OPINION = "claude_agrees"


def judged_pairs(source: str | os.PathLike[str] = NAME, *, split: str = "train", limit: int | None = None) -> PairSet:
    """From the set `judges`, fetched once as a Python package, or from a file or folder with a second opinion.

    Rows of a file have a column `claude_agrees`, or the `subset` that a saved set of judged pairs has.
    """
    if source == NAME:
        return load_pairs(f"{NAME}:{split}", limit=limit)
    path = Path(source).expanduser()
    if not path.exists():
        raise InputError(f"{path} does not exist; give a file or folder of judged pairs, or {NAME!r} to fetch them")
    table = read_path(path, split if path.is_dir() else None)
    found = read_pairs(Table(table.label, _marked(table.rows)), limit, False)
    pairs = PairSet(found.pairs, name=path.name, bad_rows=found.bad_rows)
    agreed(pairs)
    return pairs


def agreed(pairs: PairSet) -> dict[str, bool]:
    """For each pair's id, whether the second judge agrees with its label as it was read."""
    found = {}
    for pair in pairs:
        if pair.subset not in (AGREE, DISAGREE):
            raise InputError(
                f"pair {pair.id} ({pair.source}) has no second opinion; its row needs {SECOND_OPINION}, true or false"
            )
        found[pair.id] = pair.subset == AGREE
    return found


def _marked(rows: Iterable[Row]) -> Iterator[Row]:
    """The rows of a file, with the second opinion as their subset."""
    for read in rows:
        if not isinstance(read, BadRow) and isinstance(read[1], Mapping):
            opinion = read[1].get(SECOND_OPINION)
            if isinstance(opinion, bool):
                read = read[0], {**read[1], "subset": AGREE if opinion else DISAGREE}
        yield read
