"""Before the first step of an objective that doubts labels: how likely each of them is wrong, or who will say so."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from gapo.consensus.judging import Judgement, judged, sketches_of
from gapo.consensus.mixture import Mixture
from gapo.consensus.watch import Watch
from gapo.errors import InputError
from gapo.model.sharding import is_sharded
from gapo.objectives import depends_on_margin_alone
from gapo.training.dataset import prompt_numbers

if TYPE_CHECKING:
    from gapo.training.trainer import PreferenceTrainer

logger = logging.getLogger("gapo")
START, RUNNING = "start", "running"
FEWEST = 64  # pairs that make a direction
JUDGED, COLUMNS = "wrong.parquet", ("wrong", "consensus")


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
        logger.warning("labels are judged by the direction of %d pairs, which is mostly chance", len(pairs))
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
    found = judged(sketches, prompt_numbers(pairs))
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
            f"consensus_judge running takes the step's gradient as it judges, which {what} does not allow; use start"
        )
    if not depends_on_margin_alone(trainer.objective):
        raise InputError(
            f"consensus_judge running adds up gradients of margins per token, which {trainer.objective.name} does not "
            "weigh; use start"
        )
    return Watch(args.consensus_scope, trainer.accelerator.autocast, trainer.ranks)


def refuse_shards(trainer: PreferenceTrainer) -> None:
    if is_sharded(trainer.model):
        raise InputError(
            f"{trainer.objective.name} judges labels by every pair's own gradient, which FSDP2 never shows; use DDP, "
            "or give the folder of a `gapo audit --find-wrong` as train.consensus_judge"
        )


def _found_before(trainer: PreferenceTrainer, folder: Path) -> Judgement:
    """What `gapo audit --find-wrong` said of these pairs, by their ids."""
    try:
        table = pq.read_table(folder / JUDGED, columns=["pair_id", "wrong", "consensus"])
        about = json.loads((folder / "wrong.json").read_text(encoding="utf-8"))
        mixture = Mixture.of(about["mixture"])
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        raise InputError(
            f"consensus_judge {str(folder)!r} must be start, running, or a folder that `gapo audit --find-wrong` wrote"
        ) from None
    known = {row["pair_id"]: [row[name] for name in COLUMNS] for row in table.to_pylist()}
    ids = [pair.id for pair in trainer.train_dataset.encoded]
    missing = [name for name in ids if name not in known]
    if missing:
        raise InputError(
            f"{len(missing):,} of {len(ids):,} training pairs were not judged in {folder} (first: {missing[0]}); audit "
            "the pairs you train on, with the same labels"
        )
    wrong, alignment = torch.tensor([known[name] for name in ids], dtype=torch.float64).T
    return Judgement(alignment, wrong, mixture)
