"""Models of a run and the pairs of its recipe, ready to be probed. Imported where needed: it loads torch."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from gapo.diagnostics.probing import ProbeSettings
from gapo.model.load import load_policy
from gapo.objectives import get_objective
from gapo.pairs.encode import EncodedPair, Encoder, encode_pairs
from gapo.runs.data import load_data
from gapo.runs.recipe import policy_arguments
from gapo.runs.run import config_from
from gapo.studies.store import StoredRun
from gapo.training.admission import longest

VALUES_ONLY = 2  # draws of a bootstrap: intervals are over seeds, not over pairs


@dataclass(frozen=True)
class Probed:
    """The start model, training pairs as the run has them, and pairs that are held out."""

    start: nn.Module
    pairs: list[EncodedPair]
    held_out: list[EncodedPair]
    pad_id: int


def probed(run: StoredRun, pairs: int | None = None) -> Probed:
    """What the recipe names; `pairs`: so many training pairs, where the run had fewer or more."""
    recipe = deepcopy(run.recipe)
    recipe["train"]["output_dir"] = str(run.folder)
    if pairs is not None:
        recipe["data"]["limit"] = pairs
    policy = load_policy(**policy_arguments(recipe), say=lambda _: None)
    config = config_from(recipe)
    encoder = Encoder(policy.tokenizer, longest(policy.model, config), config.max_prompt_length, config.template)
    train, evaluation = (encode_pairs(part, encoder)[0] for part in load_data(recipe))
    return Probed(policy.model, train, evaluation, int(policy.tokenizer.pad_token_id))


def settings_of(run: StoredRun, batch_pairs: int | None = None) -> ProbeSettings:
    """GAPO as the recipe has it; without `batch_pairs` an anchor is shared by the pairs of one step."""
    recipe = run.recipe
    knobs = {key: value for key, value in recipe["objective"].items() if key != "name"}
    turned = get_objective("gapo", **knobs).settings
    train, anchor = recipe["train"], recipe["anchor"]
    step = train["per_device_train_batch_size"] * train.get("gradient_accumulation_steps", 1)
    return ProbeSettings(
        batch_pairs=batch_pairs or step,
        radius=anchor["radius"],
        beta=float(turned["beta"]),
        gamma=float(turned["gamma"]),
        scope=anchor["scope"],
        seed=train["seed"],
    )


def trained_model(run: StoredRun) -> nn.Module:
    return load_policy(str(run.model), say=lambda _: None).model


def models_by_epoch(run: StoredRun) -> dict[float, str | Path]:
    """The start model at 0, checkpoints by the share of the run, the trained model at 1."""
    steps = run.evals["steps"]
    kept = {step / steps: path for step, path in run.checkpoints.items() if step < steps}
    return {0.0: run.recipe["model"]["name"], **kept, 1.0: run.model}
