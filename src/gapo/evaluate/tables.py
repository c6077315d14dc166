"""Results of single evaluations as rows of a readable table, as Markdown and as files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gapo.evaluate.markdown import markdown_table
from gapo.evaluate.reward_subsets import NO_SUBSET
from gapo.storage import whole_file

NONE = "-"
SHARES = {
    "accuracy": "reward accuracy",
    "accuracy_with_length": "accuracy where the longer is chosen",
    "accuracy_against_length": "accuracy where the shorter is chosen",
    "longer_wins": "longer wins (model)",
    "chosen_longer": "longer wins (labels)",
}
WAYS = {"model_base": "KL(model || base)", "base_model": "KL(base || model)"}


class Table(NamedTuple):
    """A header and rows of text."""

    header: tuple[str, ...]
    rows: list[list[str]]


def reward_table(found: Mapping[str, Any]) -> Table:
    """All pairs in full, then the accuracy of each subset."""
    rows = [[words, *_share(found[name])] for name, words in SHARES.items()]
    rows.append(["margin", *_number(found["margin"])])
    for name, part in found["subsets"].items():
        rows.append([f"reward accuracy, {'no subset' if name == NO_SUBSET else name}", *_share(part["accuracy"])])
    return Table(("measure", "value", "95 % interval", "pairs"), rows)


def drift_table(found: Mapping[str, Any]) -> Table:
    rows = [[f"{words}, nats per token", *_number(found[way])] for way, words in WAYS.items()]
    return Table(("measure", "value", "95 % interval", "responses"), rows)


def task_table(found: Mapping[str, Any]) -> Table:
    """A row for each metric, with the number of few-shot items and the task's version."""
    rows = []
    for task, result in found["tasks"].items():
        of = (
            NONE
            if result["n"] is None
            else f"{result['n']:,}"
            if result["complete"]
            else f"{result['n']:,} of {result['of']:,}"
        )
        for metric, value in result["metrics"].items():
            about = [str(result["num_fewshot"]), str(result["version"])]
            rows.append([task, metric.removesuffix(",none"), *_share(value)[:2], of, *about])
    return Table(("task", "metric", "value", "95 % interval", "items", "few-shot", "version"), rows)


def _share(found: Mapping[str, Any] | None) -> list[str]:
    if found is None:
        return [NONE, NONE, "0"]
    low, high = found["low"], found["high"]
    interval = NONE if low is None or high is None else f"{low:.1%} to {high:.1%}"
    return [f"{found['value']:.1%}", interval, f"{found['n']:,}"]


def _number(found: Mapping[str, Any] | None) -> list[str]:
    if found is None:
        return [NONE, NONE, "0"]
    low, high = found["low"], found["high"]
    interval = NONE if low is None or high is None else f"{low:.4g} to {high:.4g}"
    return [f"{found['value']:.4g}", interval, f"{found['n']:,}"]


def markdown(table: Table) -> str:
    return "\n".join(markdown_table(table.header, table.rows)) + "\n"


def write_result(folder: Path, name: str, found: Mapping[str, Any], table: str) -> Path:
    """<name>.json and <name>.md, each whole or not at all."""
    with whole_file(folder / f"{name}.json") as part:
        part.write_text(json.dumps(found, indent=2, allow_nan=False, ensure_ascii=False) + "\n", encoding="utf-8")
    with whole_file(folder / f"{name}.md") as part:
        part.write_text(table, encoding="utf-8")
    return folder / f"{name}.json"


def short_name(model: str) -> str:
    """A model's name as a folder's: what follows the last slashes, without odd characters."""
    parts = [part for part in re.split(r"[/\\]+", model) if part not in ("", ".", "..", "~")]
    return re.sub(r"[^\w.-]+", "-", "-".join(parts[-2:])) or "model"
