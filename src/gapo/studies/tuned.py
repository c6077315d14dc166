"""What `gapo study tuning` chose, for every other study to use."""

from __future__ import annotations

import json
from pathlib import Path

from gapo.errors import InputError
from gapo.studies.grid import Choice, Tuned
from gapo.studies.rows import read_csv

FILE = "chosen.csv"


def read_tuned(folder: Path) -> Tuned:
    """The choices in a results folder of the tuning study; none where it was not run."""
    path = folder / FILE
    if not path.is_file():
        return {}
    try:
        rows = read_csv(path)
        return {row["method"]: Choice(float(row["learning_rate"]), json.loads(row["knobs"])) for row in rows}
    except (KeyError, ValueError):
        raise InputError(f"{path} is not what `gapo study tuning` writes; run it again, or delete the file") from None
