"""From a recipe to a run directory: load, add noise, train, evaluate before and after, write everything down."""

from __future__ import annotations

import json
import logging
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from transformers import set_seed

from gapo.errors import InputError
from gapo.evaluate.reward import reward_report
from gapo.model.load import load_policy
from gapo.model.logps import PairLogps
from gapo.model.merge import save_merged
from gapo.model.ranks import joined
from gapo.pairs.pair import PreferencePair, Prompt
from gapo.runs.alive import at_work
from gapo.runs.data import load_data
from gapo.runs.environment import environment
from gapo.runs.kept_pairs import Outcomes, forget_texts, write_after, write_before, write_texts
from gapo.runs.recipe import Recipe, policy_arguments, preference_arguments, recipe_hash
from gapo.runs.resume import Standing, checkpoint_to_resume, result_to_tell, standing_of, write_start
from gapo.storage import whole_file, whole_folder
from gapo.training.card import model_card
from gapo.training.choices import choices_of, take_up_choices
from gapo.training.config import PreferenceConfig
from gapo.training.progress import Display
from gapo.training.stopping import Stopping
from gapo.training.trainer import PreferenceTrainer

logger = logging.getLogger("gapo")
REPLIES_SHOWN = 6
LONGEST_REASON = 400  # characters; what transformers says may list every optimiser there is
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


def execute(
    recipe: Recipe,
    *,
    command: list[str],
    resume: bool = False,
    say: Say = print,
    display: Display | None = None,
    stopping: Stopping | None = None,
) -> RunResult:
    """Run one recipe (of one objective) in its folder; `display` shows its steps in the place of tqdm's bars.

    With `stopping`, a signal while it trains ends it after a step, with a checkpoint.
    """
    folder = Path(recipe["train"]["output_dir"])
    if resume and (result := result_to_tell(standing_of(folder), recipe, say)) is not None:
        return RunResult(folder, result)
    with at_work(folder, joined()):
        run = standing_of(folder) if resume else Standing(folder)  # as it is now that nobody else writes
        trainer = _trainer(recipe, say)
        if display is not None:
            trainer.books.show_on(display)
        checkpoint = _begun(run, recipe, trainer, command, say)
        with stopping.heard_by(trainer) if stopping is not None else nullcontext():
            start, seconds = _trained(run, trainer, checkpoint)
        return _carried_out(recipe, folder, trainer, start, seconds, say)


def _begun(run: Standing, recipe: Recipe, trainer: PreferenceTrainer, command: list[str], say: Say) -> str | None:
    """What can be known before the first step is decided and written down; the checkpoint to go on from, if any."""
    if recipe["model"].get("merge") and trainer.is_fsdp_enabled:
        raise InputError("model.merge needs whole weights, and FSDP2 shares them out; merge the saved adapters later")
    if run.start is not None:
        take_up_choices(trainer, run.start["choices"])
    say(trainer.layout.reason)
    if trainer.engine_choice is not None:
        say(str(trainer.engine_choice))
    checkpoint = checkpoint_to_resume(run, trainer, say)
    if trainer.ranks.first:
        _write_inputs(run.folder, recipe, command, begun=run.recipe is not None)
        _write_texts(run.folder, recipe, trainer)
    return checkpoint


def _trained(run: Standing, trainer: PreferenceTrainer, checkpoint: str | None) -> tuple[dict[str, Any], float]:
    """What was found before the first step, and the seconds of all steps."""
    start = run.start if run.start is not None else _start(run.folder, trainer)
    since = time.monotonic()
    trainer.train(resume_from_checkpoint=checkpoint)
    return start, trainer.books.earlier + time.monotonic() - since


def _carried_out(
    recipe: Recipe, folder: Path, trainer: PreferenceTrainer, start: dict[str, Any], seconds: float, say: Say
) -> RunResult:
    """Measure the trained model, and write everything down."""
    after, last_replies, outcomes = _measured(trainer, "after")
    trainer.books.monitors.replies(trainer.state.global_step, last_replies)
    held_out = bool(recipe["data"]["eval"] or recipe["data"]["eval_fraction"])
    evals = {
        "objective": trainer.objective.name,
        "pairs": len(trainer.eval_dataset),
        "held_out": held_out,
        "before": start["before"],
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
            for pair, old, new in zip(_shown(trainer), start["replies"], last_replies, strict=True)
        ],
        "warnings": [*([] if held_out else [NOTHING_HELD_OUT]), *trainer.books.monitors.warnings],
    }
    _save_model(folder / "model", trainer, evals)
    if trainer.ranks.first:
        write_after(folder, trainer.eval_dataset, outcomes)
        _write_results(folder, recipe, trainer, evals, say)
    trainer.ranks.wait()
    return RunResult(folder, evals)


def _save_model(folder: Path, trainer: PreferenceTrainer, evals: dict[str, Any]) -> None:
    """The weights with their card. One process writes; where weights are in shards, all give theirs."""
    if not trainer.ranks.first:
        trainer.save_model(str(folder))
        return
    with whole_folder(folder) as part:
        trainer.save_model(str(part))
        (part / "README.md").write_text(model_card(trainer, _for_the_card(evals)), encoding="utf-8")


def _write_results(folder: Path, recipe: Recipe, trainer: PreferenceTrainer, evals: dict[str, Any], say: Say) -> None:
    """What follows the weights; the result itself last, for it says that the run is finished."""
    if recipe["model"].get("merge"):
        say("merging the adapters into the weights")
        with whole_folder(folder / "merged") as part:
            save_merged(trainer.model, part, trainer.encoder.tokenizer)
    with whole_file(folder / "evals.json") as part:
        part.write_text(json.dumps(evals, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def _trainer(recipe: Recipe, say: Say) -> PreferenceTrainer:
    config = config_from(recipe)
    with config.ranks().first_first():  # large sets are read into the cache once
        train, evaluation = load_data(recipe)
    if flips := train.flipped.count(True):
        say(f"{flips} of {len(train)} training labels are flipped ({recipe['noise']['kind']} noise)")
    set_seed(config.seed)  # adapters start at random
    policy = load_policy(**policy_arguments(recipe), say=say)
    return PreferenceTrainer(policy.model, config, train, evaluation, policy.tokenizer)


def _measured(
    trainer: PreferenceTrainer, moment: str, policy: PairLogps | None = None
) -> tuple[dict[str, Any], list[str], Outcomes]:
    """Reward accuracy on the evaluation pairs, replies to the first prompts, and how each pair came out.

    `policy`: where the log-probs are known.
    """
    pairs, objective = trainer.eval_dataset, trainer.objective
    reference = trainer.references.of(pairs) if objective.reward.relative else None
    bar = trainer.books.progress(f"evaluation {moment}")
    precision = trainer.accelerator.autocast
    shared = trainer.layout.shared
    report, outcomes = reward_report(
        trainer.model, pairs, trainer.pad_id, objective, reference, bar, precision, shared, trainer.ranks, policy
    )
    return report, trainer.replies([pair.prompt for pair in _shown(trainer)]), outcomes


def _start(folder: Path, trainer: PreferenceTrainer) -> dict[str, Any]:
    """What is measured and decided before the first step, kept for a resume: the start model is gone by then."""
    before, first_replies, outcomes = _measured(trainer, "before", trainer.references.start(trainer.eval_dataset))
    start = {"before": before, "replies": first_replies, "choices": choices_of(trainer)}
    if trainer.ranks.first:
        write_before(folder, trainer.eval_dataset, outcomes)
        write_start(folder, start)
    return start


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


def config_from(recipe: Recipe) -> PreferenceConfig:
    arguments = {"disable_tqdm": False, **preference_arguments(recipe)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return PreferenceConfig(**arguments)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        reason = str(error).splitlines()[0][:LONGEST_REASON]
        raise InputError(f"the recipe's train section does not fit: {reason}; change that key") from None


def _write_inputs(folder: Path, recipe: Recipe, command: list[str], *, begun: bool) -> None:
    with whole_file(folder / "recipe.yaml") as part:
        part.write_text(yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True), encoding="utf-8")
    if begun and (folder / "environment.json").is_file():
        return  # it says what the run began on
    with whole_file(folder / "environment.json") as part:
        part.write_text(
            json.dumps({"recipe": recipe_hash(recipe), **environment(command, recipe["train"]["seed"])}, indent=2)
            + "\n",
            encoding="utf-8",
        )


def _write_texts(folder: Path, recipe: Recipe, trainer: PreferenceTrainer) -> None:
    """Labels as trained on. `data.keep_texts: false` keeps the data out of the run folder."""
    if not recipe["data"].get("keep_texts", True):
        forget_texts(folder)
        return
    held_out = recipe["data"]["eval"] or recipe["data"]["eval_fraction"]
    evaluation = trainer.eval_dataset.pairs if held_out else None
    write_texts(folder, trainer.train_dataset.pairs, evaluation, recipe["train"]["seed"])


def _lab_measures(recipe: Recipe, trainer: PreferenceTrainer) -> dict[str, float]:
    """True quality, skill and drift, where the world is ours and can tell."""
    if recipe["model"]["name"] != "lab":
        return {}
    from gapo.lab.measures import measure

    return measure(trainer.model, trainer.encoder.tokenizer, seed=recipe["train"]["seed"])
