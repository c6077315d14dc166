"""The comparison of a model with a base in words: cells, Markdown, conditions. Nothing heavy: the page reads it too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gapo.evaluate.markdown import markdown_table

ALIGNMENT, REASONING, REWARD, DRIFT = GROUPS = ("alignment", "reasoning", "reward accuracy", "drift")
PERCENT, NATS, NUMBER = "%", "nats per token", ""
NONE = "-"
HEADER = ("measure", "model", "base", "difference", "n")


def cells(row: Mapping[str, Any]) -> list[str]:
    """A row of the object as words: name, model, base, paired difference, items."""
    unit = row["unit"]
    values = [_shown(row[key], unit) for key in ("model", "base")]
    n = next((row[key]["n"] for key in ("model", "base") if row[key]), None)
    name = f"{row['name']} ({unit})" if unit else str(row["name"])
    return [name, *values, _shown(row["difference"], unit, signed=True), NONE if n is None else f"{n:,}"]


def _shown(found: Mapping[str, Any] | None, unit: str, *, signed: bool = False) -> str:
    if found is None:
        return NONE
    digits = 1 if unit == PERCENT else 3
    sign = "+" if signed else ""
    low, high = found["low"], found["high"]
    value = f"{found['value']:{sign}.{digits}f}"
    return value if low is None or high is None else f"{value} ({low:.{digits}f} to {high:.{digits}f})"


def markdown(comparison: Mapping[str, Any]) -> str:
    """One table, its groups one after the other, and under which conditions each number was measured."""
    header = ["", *HEADER[:1], comparison["model"], comparison["base"], *HEADER[3:]]
    lines = markdown_table(header, [[row["group"], *cells(row)] for row in comparison["rows"]])
    notes = ["", "95 % intervals in brackets. A difference is paired: model minus base on the same items.", ""]
    notes += [f"- {name}: {words}" for name, words in conditions(comparison)]
    return "\n".join([*lines, *notes]) + "\n"


def conditions(comparison: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What each number depends on, rows with the same conditions together."""
    found: dict[str, list[str]] = {}
    for row in comparison["rows"]:
        words = ", ".join(
            f"{key} {_plain(value)}" for key, value in row["facts"].items() if value not in (None, {}, "")
        )
        found.setdefault(words, []).append(row["name"])
    return [("; ".join(names), words) for words, names in found.items() if words]


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return "(" + ", ".join(f"{key} {_plain(part)}" for key, part in value.items()) + ")"
    return str(value)
