"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def markdown_table(header: Sequence[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Its lines; what a cell holds stays in it."""
    return [_line(header), "|" + "---|" * len(header), *(_line(row) for row in rows)]


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
