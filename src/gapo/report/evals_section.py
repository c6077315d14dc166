"""The run's model beside a base, as `gapo eval all` measured it: a table for each group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gapo.evaluate.comparison_words import GROUPS, cells, conditions
from gapo.report import results
from gapo.report.elements import Section, paragraph, table, together
from gapo.report.markup import Markup, tag
from gapo.report.run_files import Run
from gapo.report.tables import Table

KEY = "comparison"
NOTE = (
    "95\u00a0% intervals in brackets. A difference is paired: model minus base on the items both were measured on, in "
    "percentage points where the measure is a percentage."
)


def evals_section(run: Run) -> tuple[Section, ...]:
    """Nothing where `gapo eval all` was not run."""
    comparison = results.section(run, KEY)
    rows = comparison.get("rows")
    if not isinstance(rows, list) or not rows:
        return ()
    try:
        content = _content(comparison)
    except (KeyError, TypeError, ValueError):  # a results file that somebody changed should not cost the page
        content = paragraph("The comparison in evals.json cannot be read; run gapo eval all again.")
    return (Section("evals", "Beside a base", content),)


def _content(comparison: Mapping[str, Any]) -> Markup:
    base, rows = str(comparison["base"]), comparison["rows"]
    header = ("measure", "this model", base, "difference", "n")
    tables = []
    for group in GROUPS:
        own = tuple(tuple(cells(row)) for row in rows if row["group"] == group)
        if own:
            tables.append(table(Table(header, own), caption=f"{group.capitalize()}, beside {base}"))
    told = (tag("li", f"{names}: {words}") for names, words in conditions(comparison))
    return together(paragraph(NOTE, "soft"), tables, tag("details", tag("summary", "Conditions"), tag("ul", told)))
