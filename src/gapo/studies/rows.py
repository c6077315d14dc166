"""Rows of plain values: what a run is observed to be, and what stands behind an exhibit."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gapo.storage import whole_file
from gapo.training.record import read_steps

Row = dict[str, Any]
Rows = list[Row]
Tables = dict[str, Rows]


def number(value: object) -> float | None:
    """A finite number, or None: results may hold null and NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def where(rows: Iterable[Row], **values: Any) -> Rows:
    """Rows that have these values."""
    return [row for row in rows if all(row.get(key) == value for key, value in values.items())]


def first(rows: Iterable[Row], **values: Any) -> Row | None:
    return next(iter(where(rows, **values)), None)


def grouped(rows: Iterable[Row], by: Sequence[str]) -> dict[tuple[Any, ...], Rows]:
    """Rows by the values of some columns, in the order in which they come."""
    groups: dict[tuple[Any, ...], Rows] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(key) for key in by), []).append(row)
    return groups


def with_paper(rows: Iterable[Row], by: Sequence[str], **columns: Mapping[Any, float]) -> Rows:
    """The rows with the paper's figures in columns of their own; the key is one value, or several as a tuple."""

    def key(row: Row) -> Any:
        values = tuple(row.get(name) for name in by)
        return values[0] if len(by) == 1 else values

    return [{**row, **{name: figures.get(key(row)) for name, figures in columns.items()}} for row in rows]


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """One JSON line a row."""
    with whole_file(path) as part:
        part.write_text("".join(json.dumps(_plain(row)) + "\n" for row in rows), encoding="utf-8")


def read_rows(path: Path) -> Rows:
    return read_steps(path)


def csv_text(rows: Sequence[Row]) -> str:
    """The rows as CSV, numbers to six places; columns in the order in which they first appear."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def read_csv(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.6g}"
    return "" if value is None else json.dumps(value) if isinstance(value, dict | list) else str(value)


def _plain(row: Row) -> Row:
    """Ten places are enough, and JSON has no NaN."""
    return {
        key: (float(f"{value:.10g}") if math.isfinite(value) else None) if isinstance(value, float) else value
        for key, value in row.items()
    }


def a_line_each(rows: Rows, at: str, names: Mapping[str, str], label: str, value: str) -> Rows:
    """A row for each named column with its interval, to draw a line for each."""
    return [
        {at: row[at], label: words, **{f"{value}{end}": row[f"{key}{end}"] for end in ("", "_low", "_high")}}
        for row in rows
        for key, words in names.items()
    ]
