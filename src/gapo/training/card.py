"""The model card of a trained model: method, knobs, data, noise, result."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import yaml

from gapo.model.wheel import WHEEL_MODELS, folder_name

if TYPE_CHECKING:
    from gapo.training.trainer import PreferenceTrainer


def model_card(trainer: PreferenceTrainer, result: Mapping[str, Any] | None = None) -> str:
    """Markdown with the Hub's front matter. The result is the one given, or that of the last evaluation."""
    objective = trainer.objective
    base = str(getattr(trainer.model.config, "_name_or_path", "") or "unknown")
    name = _title(base)
    sections = [
        f"---\n{yaml.safe_dump(_header(trainer, base), sort_keys=False)}---",
        f"# {name} trained with {objective.name}",
        f"{name}, trained on preference pairs with `{objective.name}` by gapo {version('gapo')}. The result below says "
        "how well it ranks pairs like those it was trained on; it does not say how good or how safe its replies are.",
        "## Method\n\n" + _table({"objective": objective.name, **objective.settings, **_method(trainer)}),
        "## Training\n\n" + _table(_training(trainer)),
        "## Data\n\n" + _table(_data(trainer)),
        "## Result\n\n" + (_table(result) if result else _last_evaluation(trainer)),
    ]
    if trainer.books.monitors.warnings:
        sections.append("## Warnings\n\n" + "\n".join(f"- {text}" for text in trainer.books.monitors.warnings))
    return "\n\n".join(sections) + "\n"


def _header(trainer: PreferenceTrainer, base: str) -> dict[str, Any]:
    """The Hub's front matter; the base and its licence where they are known."""
    header: dict[str, Any] = {
        "library_name": "peft" if hasattr(trainer.model, "peft_config") else "transformers",
        "tags": list(dict.fromkeys(["gapo", "preference-optimization", trainer.objective.name])),
    }
    wheel = WHEEL_MODELS.get(_title(base))
    if wheel is not None:
        header |= {"base_model": wheel.hub, "license": wheel.licence.lower()}
    elif "/" in base and not base.startswith("/"):
        header["base_model"] = base
    return header


def _title(base: str) -> str:
    """The last part of a path or Hub id; of a model that came in a wheel the name it is known by."""
    last = base.rstrip("/").split("/")[-1]
    return next((name for name in WHEEL_MODELS if folder_name(name) == last), last)


def _method(trainer: PreferenceTrainer) -> dict[str, Any]:
    anchor = trainer.args.anchor()
    rows: dict[str, Any] = {}
    if trainer.objective.anchored:
        rows |= {"anchor radius": anchor.radius, "anchor batches": anchor.batches, "anchor scope": anchor.scope}
        rows |= {"anchor strategy": anchor.strategy, "anchor engine": anchor.engine}
    if trainer.args.sam_radius:
        rows["SAM radius"] = trainer.args.sam_radius
    return rows


def _training(trainer: PreferenceTrainer) -> dict[str, Any]:
    """Steps and epochs are those taken: `max_steps` may end a run long before its epochs."""
    args, state = trainer.args, trainer.state
    return {
        "learning rate": args.learning_rate,
        "pairs a step": args.train_batch_size * args.gradient_accumulation_steps * args.world_size,
        "steps": state.global_step,
        "epochs": f"{state.epoch or 0:.3g}",
        "schedule": str(getattr(args.lr_scheduler_type, "value", args.lr_scheduler_type)),
        "seed": args.seed,
    }


def _data(trainer: PreferenceTrainer) -> dict[str, Any]:
    train = trainer.train_dataset
    if train is None:
        return {"training pairs": "none"}
    flips = train.flips()
    noise = f"{flips.flipped} of {len(train)} labels are marked as flipped" if flips.known else "unknown"
    return {"training pairs": len(train), "source": train.pairs.name if train.pairs else "", "label noise": noise}


def _last_evaluation(trainer: PreferenceTrainer) -> str:
    evaluated = [line for line in trainer.state.log_history if any(key.startswith("eval_") for key in line)]
    if not evaluated:
        return "Not evaluated."
    shown = {key: f"{value:.4f}" for key, value in evaluated[-1].items() if key.startswith("eval_") and _is_result(key)}
    return _table({"step": evaluated[-1].get("step", ""), **shown})


def _is_result(key: str) -> bool:
    return not key.endswith(("_runtime", "_per_second"))


def _table(rows: Mapping[str, Any]) -> str:
    return "| | |\n|---|---|\n" + "\n".join(f"| {key} | {value} |" for key, value in rows.items())
