"""Tables that show what is still to come: a study of hours is published run by run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gapo.studies.grid import Cell
from gapo.studies.rows import Rows, first

NOT_YET = "not run yet"


def with_planned(table: Rows, cells: Iterable[Cell], by: Sequence[str]) -> Rows:
    """The table in the order of the grid; a cell that has no row yet gets one, of no seed and without values."""
    labels = [{name: {"method": cell.method, **cell.labels}[name] for name in by} for cell in cells]
    wanted = [dict(row) for row in dict.fromkeys(tuple(label.items()) for label in labels)]
    return [first(table, **label) or {**label, "seeds": 0} for label in wanted]
