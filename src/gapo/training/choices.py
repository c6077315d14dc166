"""What is decided once, before training, so that it goes fast: the layout of rows, and the anchor's engine."""

from __future__ import annotations

import logging
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from gapo.anchor.engine import Engine
from gapo.anchor.engines import Choice, choose_engine
from gapo.errors import InputError
from gapo.model.layout import Layout, choose_layout, telling_pairs
from gapo.model.load import has_dora
from gapo.model.memory import available_memory
from gapo.objectives import depends_on_margin_alone
from gapo.training.dataset import EncodedPairs

if TYPE_CHECKING:
    from gapo.training.trainer import PreferenceTrainer

logger = logging.getLogger("gapo")


def layout_for(model: nn.Module, pad_id: int, wish: str, train: EncodedPairs | None, evaluation: Any) -> Layout:
    """One row a pair where that gives the same numbers, tried on pairs of the run."""
    sets = [train, *(evaluation.values() if isinstance(evaluation, dict) else [evaluation])]
    pairs = [pair for one in sets if one is not None and len(one) for pair in telling_pairs(model, one.encoded)]
    layout = choose_layout(model, pairs, pad_id, wish)
    logger.info("%s", layout.reason)
    return layout


def engine_choice_for(trainer: PreferenceTrainer) -> Choice | None:
    """The engine asked for, or an exact one that fits into memory; None where no anchor is needed."""
    args, objective = trainer.args, trainer.objective
    if not objective.anchored or trainer.train_dataset is None:
        return None
    if args.anchor_engine == "streaming" and "gradient_norm" in objective.needs:
        raise InputError(f"{objective.name} needs all gradients of a step at once, which streaming never has; use auto")
    sharded = bool(trainer.is_fsdp_enabled)
    if sharded and "gradient_norm" in objective.needs:
        raise InputError(f"{objective.name} needs every pair's own gradient, which FSDP2 never shows; use DDP")
    step = args.per_device_train_batch_size * args.gradient_accumulation_steps
    free = -trainer.ranks.largest(-available_memory(next(trainer.model.parameters()).device))  # the least of all
    choice = choose_engine(
        args.anchor(),
        trainer.model,
        min(step, len(trainer.train_dataset)),
        bank_fits_loss=depends_on_margin_alone(objective),
        displaced_step=args.sam_radius > 0,
        sharded=sharded,
        free=free // trainer.ranks.on_this_machine if trainer.ranks.device.type == "cpu" else free,
    )
    logger.info("%s", choice)
    if choice.name in ("first_order", "streaming") and has_dora(trainer.model):
        logger.warning(
            "DoRA hands out no true gradient (it takes the weights' norms for constants), so gaps by %s are off by a "
            "percent or two at any radius; anchor.engine=auto measures them as they are",
            choice.name,
        )
    return choice


def engine_for(trainer: PreferenceTrainer) -> Engine | None:
    """A new engine of the kind chosen."""
    if trainer.engine_choice is None:
        return None
    mixed = trainer.args.precision == "mixed"
    precision = trainer.accelerator.autocast
    return trainer.engine_choice.engine(trainer.args.anchor(), precision, mixed=mixed, ranks=trainer.ranks)


def choices_of(trainer: PreferenceTrainer) -> dict[str, Any]:
    """What was decided for this run, for its checkpoints: free memory may decide otherwise next time."""
    engine = trainer.engine_choice
    chosen = None
    if engine is not None:
        chosen = {"name": engine.name, "bf16": engine.bank_dtype is torch.bfloat16, "reason": engine.reason}
    return {"layout": asdict(trainer.layout), "engine": chosen}


def take_up_choices(trainer: PreferenceTrainer, choices: dict[str, Any]) -> None:
    """Decide as the run did when it began: a layout or an engine of another kind rounds otherwise."""
    layout, engine = Layout(**choices["layout"]), choices["engine"]
    if layout.shared != trainer.layout.shared:
        trainer.data_collator = replace(trainer.data_collator, shared=layout.shared)
    trainer.layout = layout
    if engine is not None and trainer.engine_choice is not None:
        kept = torch.bfloat16 if engine["bf16"] else None
        trainer.engine_choice = Choice(engine["name"], kept, engine["reason"])
