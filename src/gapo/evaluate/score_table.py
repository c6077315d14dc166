"""Scores as rows of a table, as JSON and as Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from gapo.evaluate.markdown import markdown_table
from gapo.evaluate.scores import Score
from gapo.storage import whole_file

FACTS = ("model", "reference", "judge", "prompt")
NUMBERS = ("score", "%", "95 %", "s.e.", "n", "dropped")
JSON, MARKDOWN = "scores.json", "scores.md"


def numbers_of(score: Score) -> list[str]:
    """The cells under `NUMBERS`."""
    return [
        score.name,
        f"{score.value:.2f}",
        "-" if score.low is None or score.high is None else f"{score.low:.2f} to {score.high:.2f}",
        "-" if score.standard_error is None else f"{score.standard_error:.2f}",
        str(score.n),
        ", ".join(f"{count} {status}" for status, count in score.dropped.items()) or "0",
    ]


def heading_of(score: Score) -> str:
    """Who played, and who judged how."""
    facts = score.facts
    said = facts["judge_says"]
    server = f" (the server says {said})" if said and said != facts["judge"] else ""
    return f"{facts['model']} against {facts['reference']}, judged by {facts['judge']}{server} with {facts['prompt']}"


def notes_of(scores: Iterable[Score]) -> list[str]:
    """Why scores on a benchmark's questions do not bear the benchmark's name."""
    names: dict[tuple[str, str], list[str]] = {}
    for score in scores:
        why = "; ".join(score.facts.get("not_official_because", ()))
        if why:
            names.setdefault((str(score.facts["model"]), why), []).append(score.name)
    return [f"{model}, {' and '.join(found)}: not official, for {why}" for (model, why), found in names.items()]


def markdown(scores: Sequence[Score]) -> str:
    rows = [[str(score.facts[name]) for name in FACTS] + numbers_of(score) for score in scores]
    lines = markdown_table((*FACTS, *NUMBERS), rows)
    return "\n".join([*lines, "", *(f"- {note}" for note in notes_of(scores))]).rstrip() + "\n"


def write_scores(scores: Sequence[Score], folder: Path) -> None:
    """scores.json and scores.md, each whole or not at all."""
    with whole_file(folder / JSON) as part:
        part.write_text(json.dumps([asdict(score) for score in scores], indent=2, ensure_ascii=False) + "\n", "utf-8")
    with whole_file(folder / MARKDOWN) as part:
        part.write_text(markdown(scores), "utf-8")
