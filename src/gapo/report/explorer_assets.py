"""The explorer's own script and style, put together from small files; nothing of them is loaded from elsewhere."""

from __future__ import annotations

from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "assets" / "explorer"
SCRIPTS = (  # each uses only what stands before it
    "elements",
    "numbers",
    "columns",
    "blocks",
    "marks",
    "view",
    "colouring",
    "plot",
    "scatter",
    "table",
    "filters",
    "toolbar",
    "search",
    "differences",
    "texts",
    "history",
    "panel",
    "paper",
    "explorer",
)
OPENING = '<div class="explorer">'  # text of data is escaped, so only an explorer can open with it


@cache
def script() -> str:
    """One script in one scope."""
    parts = (FOLDER.joinpath(f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    return '(() => {\n"use strict";\n' + "\n".join(parts) + "})();\n"


@cache
def style() -> str:
    """What the explorer adds to the page's style sheet."""
    return FOLDER.joinpath("explorer.css").read_text(encoding="utf-8")
