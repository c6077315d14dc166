"""The data section of a recipe becomes training and evaluation pairs."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

from gapo.errors import InputError
from gapo.pairs.formats import load_pairs
from gapo.pairs.noise import flip
from gapo.pairs.pair import PairSet
from gapo.runs.recipe import Recipe
from gapo.runs.selection import selected

logger = logging.getLogger("gapo")
TRAINING_PAIRS_SHOWN = 200


def load_data(recipe: Recipe) -> tuple[PairSet, PairSet]:
    """Noisy training pairs, and clean evaluation pairs: given, held out by prompt, or the first training pairs.

    Noise comes before a selection, so that a flipped pair stays flipped whatever share is kept.
    """
    data, noise = recipe["data"], recipe["noise"]
    how: dict[str, Any] = {"strict": bool(data.get("strict")), "cache": data.get("cache_tokens", "auto")}
    train = load_pairs(data["train"], limit=data["limit"], **how)
    if data["eval"] is not None:
        evaluation = load_pairs(data["eval"], limit=data["eval_limit"], **how)
    elif data["eval_fraction"]:
        train, evaluation = train.split(data["eval_fraction"], seed=recipe["train"]["seed"])
        if not len(train) or not len(evaluation):
            raise InputError("too few prompts to hold some out; give data.eval, or leave out data.eval_fraction")
        evaluation = evaluation[: data["eval_limit"]] if data["eval_limit"] else evaluation
    else:
        evaluation = train[: data["eval_limit"] or TRAINING_PAIRS_SHOWN]
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        noisy, _ = flip(train, noise["rate"], noise["kind"], noise["seed"])
    if not noise["rate"]:
        noisy = train  # nothing was done to the labels, which does not make them right
    for note in notes:
        logger.warning("%s", note.message)
    if data.get("select"):
        folder = recipe["train"].get("output_dir")
        noisy = selected(noisy, data["select"], Path(folder).parent if folder else None)
    return noisy, evaluation
