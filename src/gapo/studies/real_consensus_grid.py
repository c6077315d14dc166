"""The runs behind what doubting labels does to a real language model, and looks at its start model."""

from __future__ import annotations

from gapo.studies.grid import Cell
from gapo.studies.real_consensus_found import OTHERS, OURS
from gapo.studies.real_consensus_looks import SHOWN
from gapo.studies.real_grid import real_cell
from gapo.studies.scale import Scale

CONDITIONS = (
    ("polite", "random", 0.2),
    ("polite", "random", 0.4),
    ("courtesy", "random", 0.2),
    ("courtesy", "random", 0.4),
    ("polite", "random", 0.0),
    ("polite", "length", 0.2),
    ("courtesy", "random", 0.0),
)
SETS = ("polite", "courtesy", "hh", "judges")
STATES = {"train.consensus_scope": "states"}  # said in every recipe: runs judged by gradients are other runs
JUDGED = "judged"


def grid(scale: Scale) -> list[Cell]:
    """Ours and the others, then the start model on each set of pairs, then ours judged by gradients instead."""
    gradients = [real_cell(method, *where_, 300) for where_ in CONDITIONS[:4] for method in OURS]
    starts = [start for by in (STATES, {}) for start in _starts(by)]
    return [*compared(), *starts, *gradients]


def compared() -> list[Cell]:
    """Ours, and the others, whose runs are those of real/noise."""
    ours = [
        real_cell(method, *where_, 240, changes=STATES, labels={JUDGED: "states"})
        for where_ in CONDITIONS
        for method in OURS
    ]
    return [*ours, *(real_cell(method, *where_, 300) for where_ in CONDITIONS for method in OTHERS)]


def _starts(changes: dict[str, str]) -> list[Cell]:
    shown = {"data.limit": SHOWN, **changes}
    labels = {"model": "start"}
    return [real_cell("simpo", data, trained=False, apart="labels", changes=shown, labels=labels) for data in SETS]
