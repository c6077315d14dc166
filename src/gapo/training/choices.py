"""What is decided once, before training, so that it goes fast: the layout of rows, and the anchor's engine."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from torch import nn

from gapo.anchor.engine import Engine
from gapo.anchor.engines import Choice, choose_engine
from gapo.errors import InputError
from gapo.model.layout import Layout, choose_layout, telling_pairs
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
    step = args.per_device_train_batch_size * args.gradient_accumulation_steps
    choice = choose_engine(
        args.anchor(),
        trainer.model,
        min(step, len(trainer.train_dataset)),
        bank_fits_loss=depends_on_margin_alone(objective),
        displaced_step=args.sam_radius > 0,
    )
    logger.info("%s", choice)
    return choice


def engine_for(trainer: PreferenceTrainer) -> Engine | None:
    """A new engine of the kind chosen."""
    if trainer.engine_choice is None:
        return None
    mixed = trainer.args.precision == "mixed"
    return trainer.engine_choice.engine(trainer.args.anchor(), trainer.accelerator.autocast, mixed=mixed)
