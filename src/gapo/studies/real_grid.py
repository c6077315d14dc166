"""Cells of the studies of a real language model: a recipe of SmolLM2 each."""

from __future__ import annotations

from typing import Any

from gapo.studies.grid import Cell

STEP_PAIRS = 16
FLIPS = {"random": "at random", "length": "by length"}


def real_cell(
    method: str, data: str, kind: str = "random", rate: float = 0.0, seconds: float | None = None, **more: Any
) -> Cell:
    """SmolLM2 on a set of pairs, with a share of the labels flipped. `more`: other fields of the cell."""
    changes = {"noise.kind": kind, "noise.rate": rate, **more.pop("changes", {})}
    labels = {"data": data, "flips": FLIPS[kind] if rate else "none", "rate": rate, **more.pop("labels", {})}
    return Cell(method, changes, labels, recipe=f"smollm2-{data}", seconds=seconds, **more)


def first_pairs(steps: int) -> dict[str, Any]:
    """One epoch over no more pairs than the steps take: the reference sees no others."""
    return {"train.max_steps": steps, "data.limit": steps * STEP_PAIRS}


def started(data: str, rate: float = 0.0) -> Cell:
    """The start model on these pairs: observed, not trained."""
    return real_cell("gapo", data, rate=rate, trained=False, apart="start", labels={"model": "start"})
