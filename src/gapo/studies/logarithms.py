"""Sizes of what an expansion leaves, as powers of ten: the lines of the study `theory`."""

from __future__ import annotations

from math import log10

from gapo.studies.rows import Row, Rows, number

LEFT = {0: "the gap itself", 1: "left by the first term", 2: "left by two terms"}
GAP, ALLOWED = "the mean gap", "allowed by the bound"


def left_by_terms(row: Row) -> Rows:
    """Sizes as powers of ten: a power of the radius is a straight line, its exponent the slope."""
    sizes = {words: number(row[f"rest_{order}"]) for order, words in LEFT.items()}
    return [{**row, **_on(row), "line": words, "log_size": log10(x)} for words, x in sizes.items() if x]


def off_first_term(row: Row) -> Rows:
    """How far the mean gap is from its first term, and how far the bound lets it be, in units of that term."""
    off = {GAP: abs(row["gap"] - 1), ALLOWED: max(row["ceiling"] - 1, 1 - row["floor"])}
    return [
        {**row, **_on(row), "line": words, "log_off": log10(x), "ratio": row["gap"]}
        for words, x in off.items()
        if x > 0
    ]


def _on(row: Row) -> Row:
    return {"log_radius": round(log10(row["radius"]), 4)}
