"""The runs behind what doubting labels does to a real language model, and looks at its start model."""

from __future__ import annotations

from gapo.studies.consensus import JUDGED
from gapo.studies.consensus_tables import USUAL
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
WITHIN, MANY = ("all", "subset"), 2000  # pairs of HH
SETS = ("polite", "courtesy", "hh", "judges")
ALL_LEAD = {"train.consensus_lead": "all"}
WAY = "judged"
WAYS = {
    "states, all directions": {"train.consensus_scope": "states", **ALL_LEAD},
    "gradients, all directions": {"train.consensus_scope": "full", **ALL_LEAD},
}


def grid(scale: Scale) -> list[Cell]:
    """Ours and the others, then the start model on each set of pairs, then ours judged in other ways."""
    ways = [
        real_cell(method, *where_, 300, changes=changes, labels={WAY: way})
        for way, changes in WAYS.items()
        for where_ in CONDITIONS[:2]
        for method in OURS
    ]
    starts = [start for by in (JUDGED, ALL_LEAD) for start in _starts(by)]
    return [*compared(), *starts, *(_among(within) for within in WITHIN), *ways]


def compared() -> list[Cell]:
    """Ours, and the others, whose runs are those of real/noise."""
    ours = [
        real_cell(method, *where_, 240, changes=JUDGED, labels={WAY: USUAL}) for where_ in CONDITIONS for method in OURS
    ]
    return [*ours, *(real_cell(method, *where_, 300) for where_ in CONDITIONS for method in OTHERS)]


def _among(within: str) -> Cell:
    """Helpful and harmless pairs of HH, judged together or apart: as many as `real/human` trains on."""
    changes = {"data.limit": MANY, **JUDGED, "train.consensus_within": within}
    return real_cell("simpo", "hh", trained=False, apart="labels", changes=changes, labels={"model": "start"})


def _starts(changes: dict[str, str]) -> list[Cell]:
    shown = {"data.limit": SHOWN, **changes}
    labels = {"model": "start"}
    return [real_cell("simpo", data, trained=False, apart="labels", changes=shown, labels=labels) for data in SETS]
