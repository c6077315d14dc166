"""From a recipe to a run directory: load, add noise, train, evaluate before and after, write everything down."""

from __future__ import annotations

import json
import logging
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from transformers import set_seed

from gapo.errors import InputError
from gapo.evaluate.reward import reward_report
from gapo.model.load import load_policy
from gapo.pairs.pair import PreferencePair, Prompt
from gapo.runs.data import load_data
from gapo.runs.environment import environment
from gapo.runs.recipe import Recipe, differences, preference_arguments, recipe_hash
from gapo.storage import whole_file
from gapo.training.card import model_card
from gapo.training.config import PreferenceConfig
from gapo.training.trainer import PreferenceTrainer

logger = logging.getLogger("gapo")
REPLIES_SHOWN = 6
NOTHING_HELD_OUT = (
    "no pairs were held out, so the accuracy is on training pairs with their labels as given; set data.eval, or "
    "data.eval_fraction to hold out a share of the prompts"
)
Say = Callable[[str], None]


@dataclass(frozen=True)
class RunResult:
    """Where the run is and what it found."""

    folder: Path
    evals: dict[str, Any]


def free_folder(folder: Path, *, resume: bool, given: bool) -> Path:
    """A folder for a new run: the one asked for if it is free; next to a finished one where nobody asked."""
    if resume:
        if not (folder / "recipe.yaml").is_file():
            raise InputError(f"{folder} holds no run to resume; start it without --resume")
        return folder
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; choose another train.output_dir")
    if not folder.exists() or not any(folder.iterdir()):
        return folder
    if given:
        raise InputError(f"{folder} is not empty; choose another train.output_dir, or go on with --resume")
    number = 2
    while (candidate := folder.with_name(f"{folder.name}-{number}")).exists():
        number += 1
    return candidate


def execute(recipe: Recipe, *, command: list[str], resume: bool = False, say: Say = print) -> RunResult:
    """Run one recipe (of one objective) in its folder."""
    folder = Path(recipe["train"]["output_dir"])
    if resume:
        _refuse_another_recipe(folder, recipe)
    trainer = _trainer(recipe, say)
    say(trainer.layout.reason)
    if trainer.engine_choice is not None:
        say(str(trainer.engine_choice))
    _write_inputs(folder, recipe, command)
    before, first_replies = _measured(trainer, "before")
    start = time.monotonic()
    trainer.train(resume_from_checkpoint=True if resume else None)
    seconds = time.monotonic() - start
    after, last_replies = _measured(trainer, "after")
    trainer.books.monitors.replies(trainer.state.global_step, last_replies)
    held_out = bool(recipe["data"]["eval"] or recipe["data"]["eval_fraction"])
    trainer.save_model(str(folder / "model"))
    evals = {
        "objective": trainer.objective.name,
        "pairs": len(trainer.eval_dataset),
        "held_out": held_out,
        "before": before,
        "after": after,
        "measures": _lab_measures(recipe, trainer),
        "seconds": seconds,
        "steps": trainer.state.global_step,
        "layout": trainer.layout.reason,
        "engine": str(trainer.engine_choice) if trainer.engine_choice is not None else None,
        "seed": trainer.args.seed,
        "noise": {
            **recipe["noise"],
            "flipped": trainer.train_dataset.flips().flipped,
            "of": len(trainer.train_dataset),
        },
        "replies": [
            {"prompt": pair.prompt_text, "before": old, "after": new}
            for pair, old, new in zip(_shown(trainer), first_replies, last_replies, strict=True)
        ],
        "warnings": [*([] if held_out else [NOTHING_HELD_OUT]), *trainer.books.monitors.warnings],
    }
    with whole_file(folder / "evals.json") as part:
        part.write_text(json.dumps(evals, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    (folder / "model" / "README.md").write_text(model_card(trainer, _for_the_card(evals)), encoding="utf-8")
    return RunResult(folder, evals)


def _refuse_another_recipe(folder: Path, recipe: Recipe) -> None:
    before = yaml.safe_load((folder / "recipe.yaml").read_text(encoding="utf-8"))
    if changed := differences(before, recipe):
        raise InputError(
            f"{folder} was run with other values of {', '.join(changed[:5])}; resume it as it was "
            f"(gapo train {folder / 'recipe.yaml'} --resume), or choose another train.output_dir"
        )


def _trainer(recipe: Recipe, say: Say) -> PreferenceTrainer:
    config = _config(recipe)
    train, evaluation = load_data(recipe)
    if flips := train.flipped.count(True):
        say(f"{flips} of {len(train)} training labels are flipped ({recipe['noise']['kind']} noise)")
    set_seed(config.seed)  # adapters start at random
    policy = load_policy(**recipe["model"], say=say)
    return PreferenceTrainer(policy.model, config, train, evaluation, policy.tokenizer)


def _measured(trainer: PreferenceTrainer, moment: str) -> tuple[dict[str, Any], list[str]]:
    """Reward accuracy on the evaluation pairs, and replies to the first prompts."""
    pairs, objective = trainer.eval_dataset, trainer.objective
    reference = trainer.references.of(pairs) if objective.reward.relative else None
    bar = trainer.books.progress(f"evaluation {moment}")
    precision = trainer.accelerator.autocast
    shared = trainer.layout.shared
    report = reward_report(trainer.model, pairs, trainer.pad_id, objective, reference, bar, precision, shared)
    return report, trainer.replies([pair.prompt for pair in _shown(trainer)])


def _shown(trainer: PreferenceTrainer) -> list[PreferencePair]:
    """The first evaluation pairs with different prompts."""
    first: dict[Prompt, PreferencePair] = {}
    for pair in trainer.eval_dataset.pairs:
        first.setdefault(pair.prompt, pair)
        if len(first) == REPLIES_SHOWN:
            break
    return list(first.values())


def _for_the_card(evals: dict[str, Any]) -> dict[str, str]:
    low, high = evals["after"]["accuracy_interval"]
    kind = "held-out" if evals["held_out"] else "training"
    return {
        f"reward accuracy before, {evals['pairs']} {kind} pairs": f"{evals['before']['accuracy']:.4f}",
        "reward accuracy after": f"{evals['after']['accuracy']:.4f} (95 % interval {low:.4f} to {high:.4f})",
        **{name.replace("_", " "): f"{value:.4f}" for name, value in evals["measures"].items()},
    }


def _config(recipe: Recipe) -> PreferenceConfig:
    arguments = {"disable_tqdm": False, **preference_arguments(recipe)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return PreferenceConfig(**arguments)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(f"the recipe's train section does not fit: {str(error).splitlines()[0]}") from None


def _write_inputs(folder: Path, recipe: Recipe, command: list[str]) -> None:
    with whole_file(folder / "recipe.yaml") as part:
        part.write_text(yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True), encoding="utf-8")
    with whole_file(folder / "environment.json") as part:
        part.write_text(
            json.dumps({"recipe": recipe_hash(recipe), **environment(command, recipe["train"]["seed"])}, indent=2)
            + "\n",
            encoding="utf-8",
        )


def _lab_measures(recipe: Recipe, trainer: PreferenceTrainer) -> dict[str, float]:
    """True quality, skill and drift, where the world is ours and can tell."""
    if recipe["model"]["name"] != "lab":
        return {}
    from gapo.lab.measures import measure

    return measure(trainer.model, trainer.encoder.tokenizer, seed=recipe["train"]["seed"])
