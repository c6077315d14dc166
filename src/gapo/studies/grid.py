"""The runs of a study: cells, each a change of the scale's recipe, times seeds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gapo.runs.recipe import Recipe, read_recipe, recipe_hash, runs_of
from gapo.studies.knobs import SAME_AS
from gapo.studies.scale import QUIET, Scale

AFTER = "{after}"  # in a change: the folder of the run that this one comes after
SEED = "{seed}"  # in a change: the seed of the run


@dataclass(frozen=True)
class Choice:
    """What tuning chose for a method."""

    learning_rate: float
    knobs: Mapping[str, Any] = field(hash=False)


Tuned = Mapping[str, Choice]


@dataclass(frozen=True)
class Cell:
    """One point of a grid: its method, what it changes in the recipe, and the labels of its rows.

    `timed`: alone on the machine with all its threads, in a process of its own. `trained`: False for what is measured
    without a run (the start model, for instance). `after`: a run that must be there, with what was observed of it,
    before this one starts; "{after}" in a change becomes its folder, so that its hash is part of this run's.
    `recipe`: what the run begins with, where that is not the scale's recipe with the scale's changes.
    `apart`: the ending of its address, where another cell has the same recipe and is no more trained or timed.
    """

    method: str
    changes: Mapping[str, Any] = field(default_factory=dict, hash=False)
    labels: Mapping[str, Any] = field(default_factory=dict, hash=False)
    timed: bool = False
    trained: bool = True
    after: Cell | None = None
    recipe: str | None = None
    apart: str = ""
    seconds: float | None = None  # what training takes about, where that is not what the scale says

    @property
    def words(self) -> str:
        """How the progress bar calls it."""
        return " ".join(str(value) for value in {"method": self.method, **self.labels}.values())


def recipe_of(cell: Cell, scale: Scale, seed: int, tuned: Tuned, after: str | None = None) -> Recipe:
    """The complete recipe of a cell at a seed: the scale's or its own, the tuned knobs of its method, its changes.

    The seed sets the order of the pairs, which labels are wrong, and the replies that are sampled.
    """
    choice = tuned.get(SAME_AS.get(cell.method, cell.method))
    chosen = {} if choice is None else {"train.learning_rate": choice.learning_rate}
    if choice is not None:
        chosen |= {f"objective.{knob}": value for knob, value in choice.knobs.items()}
    changes = {
        **(scale.changes if cell.recipe is None else QUIET),
        "objective.name": cell.method,
        "train.seed": seed,
        "noise.seed": seed,
        **chosen,
        **{key: _placed(value, after, seed) for key, value in cell.changes.items()},
    }
    overrides = [f"{key}={_text(value)}" for key, value in changes.items()]
    return runs_of(read_recipe(cell.recipe or scale.recipe, overrides))[0]


def address_of(recipe: Recipe, cell: Cell) -> str:
    """Where a run is kept: the hash of its recipe; timed runs and models without a run have places of their own."""
    usual = "timed" if cell.timed else "" if cell.trained else "start"
    ending = cell.apart or usual
    return recipe_hash(recipe) + (f"-{ending}" if ending else "")


def _placed(value: Any, after: str | None, seed: int) -> Any:
    if not isinstance(value, str):
        return value
    return value.replace(SEED, str(seed)).replace(AFTER, after or "after")  # a word where the run is not known yet


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
