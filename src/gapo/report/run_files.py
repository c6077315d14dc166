"""A run directory, read with patience: a run may have been killed, and its page should still be made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gapo.errors import InputError
from gapo.pairs.yaml_text import NotYaml, read_yaml
from gapo.report.statistics import Numbers

PAIR_COLUMNS = (
    "step",
    "epoch",
    "pair_id",
    "margin",
    "anchor_margin",
    "gap",
    "weight",
    "loss",
    "chosen_tokens",
    "rejected_tokens",
    "chosen_logp",
    "rejected_logp",
    "flipped",
    "grad_norm",
    "alignment",
    "gap_self",
    "gap_others",
)


@dataclass(frozen=True)
class Run:
    """What a run left behind. None stands for a file that is not there; `problems` says what was unreadable."""

    folder: Path
    recipe: Mapping[str, Any]
    recipe_text: str
    environment: Mapping[str, Any] | None
    steps: Mapping[str, Numbers] | None
    pairs: pa.Table | None
    evals: Mapping[str, Any] | None
    problems: tuple[str, ...] = ()
    held_out: pa.Table | None = None  # a row a held-out pair: what its reward was before and after

    @property
    def name(self) -> str:
        """The folder's name: how people call a run."""
        return self.folder.name

    @property
    def objective(self) -> str:
        """The objective's name, from the results or else from the recipe."""
        section = self.recipe.get("objective")
        named = section.get("name") if isinstance(section, Mapping) else section
        found = (self.evals or {}).get("objective") or named
        return found if isinstance(found, str) and found else "the run"

    def step_count(self) -> int:
        """Optimiser steps recorded."""
        return len(self.steps["step"]) if self.steps else 0


def read_run(folder: Path | str, *, growing: bool = False) -> Run:
    """Read the files of a run; only recipe.yaml must be there, because it is what makes a folder a run.

    `growing`: the run is at work, so a last line that is cut off is one that is being written.
    """
    folder = Path(folder).resolve()
    text, recipe = _read_recipe(folder)
    problems: list[str] = []
    return Run(
        folder=folder,
        recipe=recipe,
        recipe_text=text,
        environment=_read_object(folder / "environment.json", problems),
        steps=_read_steps(folder / "steps.jsonl", problems, growing),
        pairs=_read_pairs(folder / "pairs.parquet", problems),
        evals=_read_object(folder / "evals.json", problems),
        held_out=_read_parquet(folder / "held_out.parquet", {"pair_id", "gain_after"}, problems),
        problems=tuple(problems),
    )


def number(value: object) -> float | None:
    """`value` as a float where it is a finite number; results files may hold null, NaN or words."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e300 else None  # False for NaN, too


def _read_recipe(folder: Path) -> tuple[str, Mapping[str, Any]]:
    path = folder / "recipe.yaml"
    if not path.is_file():
        raise InputError(f"{folder} is not a run: {_why_not_a_run(folder)}")
    try:
        text = path.read_text(encoding="utf-8")
        recipe = read_yaml(text)
    except (OSError, UnicodeDecodeError, NotYaml) as error:
        raise InputError(f"{path} is not readable YAML ({error}); put back the recipe that training wrote") from None
    if not isinstance(recipe, dict):
        raise InputError(f"{path} should hold sections such as model and data; put back the recipe that training wrote")
    return text, recipe


def _why_not_a_run(folder: Path) -> str:
    if not folder.is_dir():
        return "there is no such folder; give one that training wrote, such as runs/<name>"
    inside = sorted(path.parent.name for path in folder.glob("*/recipe.yaml"))
    if inside:  # a recipe of several objectives
        return f"it holds the runs {', '.join(inside)}; name one of them, or several to compare"
    return "it has no recipe.yaml; give a folder that training wrote, such as runs/<name>"


def _read_object(path: Path, problems: list[str]) -> Mapping[str, Any] | None:
    if not path.is_file():
        return None
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:  # bad JSON, or bytes that are not UTF-8
        problems.append(f"{path.name} is not readable JSON and was left out.")
        return None
    if not isinstance(value, dict):
        problems.append(f"{path.name} does not hold a JSON object and was left out.")
        return None
    return value


def _read_steps(path: Path, problems: list[str], growing: bool) -> Mapping[str, Numbers] | None:
    if not path.is_file():
        return None
    lines = [line for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    rows = [_read_step(line) for line in lines]
    if rows and rows[-1] is None:
        rows.pop()
        if not growing:
            problems.append("The last line of steps.jsonl is cut off, as after a kill; the page shows the others.")
    broken = sum(row is None for row in rows)
    if broken:
        problems.append(f"{broken} of {len(lines)} lines of steps.jsonl are unreadable and were left out.")
    latest = {row["step"]: row for row in rows if row is not None}  # a resumed run writes some steps twice
    return _columns([latest[step] for step in sorted(latest)]) if latest else None


def _read_step(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and number(row.get("step")) is not None else None


def _columns(rows: list[dict[str, Any]]) -> Mapping[str, Numbers]:
    """Rows to float columns with NaN for what is not known; a column that nobody filled is left out."""
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {}
    for name in names:
        values = [number(row.get(name)) for row in rows]
        if any(value is not None for value in values):
            columns[name] = np.array([np.nan if value is None else value for value in values])
    return columns


def _read_pairs(path: Path, problems: list[str]) -> pa.Table | None:
    table = _read_parquet(path, {"step", "pair_id", "weight"}, problems)
    return None if table is None else table.select([name for name in PAIR_COLUMNS if name in table.column_names])


def _read_parquet(path: Path, needed: set[str], problems: list[str]) -> pa.Table | None:
    if not path.exists():
        return None
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError):
        problems.append(f"{path.name} is not readable and was left out.")
        return None
    if missing := needed - set(table.column_names):
        problems.append(f"{path.name} has no column {', '.join(sorted(missing))} and was left out.")
        return None
    return table
