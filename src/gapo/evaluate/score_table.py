"""Scores as rows of a table, as JSON and as Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from gapo.evaluate.scores import Score
from gapo.storage import whole_file

COLUMNS = ("model", "score", "%", "95 %", "s.e.", "n", "dropped", "judge", "prompt", "reference")
JSON, MARKDOWN = "scores.json", "scores.md"


def row_of(score: Score) -> list[str]:
    interval = "-" if score.low is None or score.high is None else f"{score.low:.2f} to {score.high:.2f}"
    dropped = ", ".join(f"{count} {status}" for status, count in score.dropped.items()) or "0"
    return [
        str(score.facts["model"]),
        score.name,
        f"{score.value:.2f}",
        interval,
        "-" if score.standard_error is None else f"{score.standard_error:.2f}",
        str(score.n),
        dropped,
        str(score.facts["judge"]),
        str(score.facts["prompt"]),
        str(score.facts["reference"]),
    ]


def notes_of(scores: Iterable[Score]) -> list[str]:
    """Why a score of a benchmark's questions does not bear the benchmark's name: one line a model."""
    reasons: dict[str, list[str]] = {}
    for score in scores:
        known = reasons.setdefault(str(score.facts["model"]), [])
        known += [why for why in score.facts.get("not_official_because", ()) if why not in known]
    return [f"{model}: not the official score: {'; '.join(why)}" for model, why in reasons.items() if why]


def markdown(scores: Sequence[Score]) -> str:
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row_of(score)) + " |" for score in scores]
    return "\n".join([*lines, "", *(f"- {note}" for note in notes_of(scores))]).rstrip() + "\n"


def write_scores(scores: Sequence[Score], folder: Path) -> None:
    """scores.json and scores.md, each whole or not at all."""
    with whole_file(folder / JSON) as part:
        part.write_text(json.dumps([asdict(score) for score in scores], indent=2, ensure_ascii=False) + "\n", "utf-8")
    with whole_file(folder / MARKDOWN) as part:
        part.write_text(markdown(scores), "utf-8")
