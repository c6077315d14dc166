"""Before the first step of an objective that doubts labels: how likely each of them is wrong, or who will say so."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from gapo.consensus.judging import Judgement, judged, sketches_of
from gapo.consensus.watch import Watch
from gapo.errors import InputError
from gapo.model.sharding import is_sharded
from gapo.training.dataset import prompt_number

if TYPE_CHECKING:
    from gapo.training.trainer import PreferenceTrainer

logger = logging.getLogger("gapo")
START, RUNNING = "start", "running"
FEWEST = 64  # pairs of other prompts that make a direction


def judgement_for(trainer: PreferenceTrainer) -> Judgement | None:
    """The labels judged by the start model, once; None where they are not, or are judged as the run goes."""
    args = trainer.args
    if not trainer.objective.watched or args.consensus_judge == RUNNING:
        return None
    if args.consensus_judge != START:
        return _found_before(trainer, Path(args.consensus_judge))
    refuse_shards(trainer)
    pairs = trainer.train_dataset.encoded
    if len(pairs) < FEWEST:
        raise InputError(
            f"{trainer.objective.name} judges a label by the other pairs, and {len(pairs)} are too few to have a "
            f"direction; give {FEWEST} or more, or use simpo"
        )
    sketches = sketches_of(
        trainer.model,
        pairs,
        trainer.pad_id,
        scope=args.consensus_scope,
        cache=args.cache_reference,
        progress=trainer.books.progress("judging labels"),
        precision=trainer.accelerator.autocast,
        precision_name=str(trainer.accelerator.mixed_precision),
        shared=trainer.layout.shared,
        ranks=trainer.ranks,
    )
    found = judged(sketches, torch.tensor([prompt_number(pair) for pair in pairs], dtype=torch.long))
    mixture = found.mixture
    logger.info(
        "labels judged by the other pairs' direction: about %.0f %% wrong, right and wrong %.1f widths apart",
        100 * mixture.rate,
        mixture.separation,
    )
    return found


def watch_for(trainer: PreferenceTrainer) -> Watch | None:
    """A direction that runs along with the training, where that is asked for."""
    args = trainer.args
    if not trainer.objective.watched or args.consensus_judge != RUNNING:
        return None
    refuse_shards(trainer)
    if trainer.objective.anchored or args.sam_radius > 0:
        what = "an anchor" if trainer.objective.anchored else "SAM"
        raise InputError(
            f"consensus_judge running takes the step's gradient as it judges, which {what} cannot; use start"
        )
    return Watch(args.consensus_scope, trainer.accelerator.autocast, trainer.ranks)


def refuse_shards(trainer: PreferenceTrainer) -> None:
    if is_sharded(trainer.model):
        raise InputError(
            f"{trainer.objective.name} judges labels by every pair's own gradient, which FSDP2 never shows; use DDP, "
            "or give the folder of a `gapo audit --find-wrong` as train.consensus_judge"
        )


def _found_before(trainer: PreferenceTrainer, folder: Path) -> Judgement:
    raise NotImplementedError
