"""The data section of a recipe becomes training and evaluation pairs."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

from gapo.errors import InputError
from gapo.pairs.formats import load_pairs
from gapo.pairs.noise import flip
from gapo.pairs.pair import PairSet, PreferencePair
from gapo.runs.recipe import Recipe
from gapo.runs.selection import selected

logger = logging.getLogger("gapo")
TRAINING_PAIRS_SHOWN = 200


def load_data(recipe: Recipe) -> tuple[PairSet, PairSet]:
    """Noisy training pairs, and clean evaluation pairs: given, held out by prompt, or the first training pairs.

    Pairs longer than `data.longest` characters are left out before any are counted. Noise comes before a selection, so
    that a flipped pair stays flipped whatever share is kept.
    """
    data, noise = recipe["data"], recipe["noise"]
    how: dict[str, Any] = {"strict": bool(data.get("strict")), "cache": data.get("cache_tokens", "auto")}
    longest = data.get("longest")
    train = _read(data["train"], data["limit"], longest, how)
    if data["eval"] is not None:
        evaluation = _read(data["eval"], data["eval_limit"], longest, how)
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


def _read(source: str, limit: int | None, longest: int | None, how: dict[str, Any]) -> PairSet:
    if longest is None:
        return load_pairs(source, limit=limit, **how)
    short = up_to(load_pairs(source, **how), longest)
    if not len(short):
        raise InputError(f"{source} has no pair of at most {longest} characters; raise data.longest")
    return short[:limit] if limit else short


def up_to(pairs: PairSet, longest: int) -> PairSet:
    """Pairs with at most so many characters in prompt and both responses, in their order."""
    return pairs.take(k for k, pair in enumerate(pairs) if characters(pair) <= longest)


def characters(pair: PreferencePair) -> int:
    return len(pair.prompt_text) + len(pair.chosen) + len(pair.rejected)
