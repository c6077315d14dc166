"""What AlpacaEval's length control is fitted with besides a model's own games: difficulties and gamed baselines."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from gapo.errors import InputError
from gapo.evaluate.length_control import Gamed
from gapo.evaluate.official import Source, in_folder, official_file
from gapo.storage import sha256

GAMED_ROWS = Source(
    (
        "df_gamed.csv",
        "alpacaeval2/df_gamed.csv",
        "df_gamed_reconstructed.csv",
        "alpacaeval2/df_gamed_reconstructed.csv",
    ),
    "tatsu-lab/alpaca_eval",
    "df_gamed.csv",
)
OFFICIAL_SHA256 = (
    "97aeec3f1c7de6dee6fd31fe66f1702623f4614c3efe1c6fc5f4927cd5fd674d"  # revision 2edc6fad of the data set
)
COLUMNS = ("index", "preference", "std_delta_len", "instruction_difficulty")


def length_data(data_dir: Path | None = None) -> tuple[dict[str, float], Gamed]:
    """The difficulty of every instruction by its id, and the rows of the gamed baselines.

    From `data_dir`, or fetched once from the Hub. They are official if they come from there or are the same bytes.
    """
    own = in_folder(GAMED_ROWS, data_dir)
    path = own or official_file(GAMED_ROWS, data_dir)
    return read_gamed(path, official=own is None or sha256(path) == OFFICIAL_SHA256)


def read_gamed(path: Path, official: bool = False) -> tuple[dict[str, float], Gamed]:
    """Rows of `df_gamed.csv`; the difficulty of an instruction is that of its first row."""
    with open(path, encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    missing = [name for name in COLUMNS if not rows or name not in rows[0]]
    if missing:
        raise InputError(f"{path} has no column {missing[0]}; is it df_gamed.csv of tatsu-lab/alpaca_eval?")
    try:
        column = {name: np.array([float(row[name]) for row in rows]) for name in COLUMNS}
    except (TypeError, ValueError) as error:
        raise InputError(f"{path} has a cell that is no number ({error}); fetch the file again") from None
    if not all(np.isfinite(values).all() for values in column.values()):
        raise InputError(f"{path} has a cell that is no finite number; fetch the file again")
    difficulty: dict[str, float] = {}
    for place, value in zip(column["index"], column["instruction_difficulty"], strict=True):
        difficulty.setdefault(str(int(place)), float(value))
    gamed = Gamed(column["preference"], column["std_delta_len"], column["instruction_difficulty"], official)
    return difficulty, gamed
