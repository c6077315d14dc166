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
from gapo.consensus.peers import FEWEST, WHOLE, groups_of
from gapo.consensus.scope import AUTO, FULL, STATES
from gapo.consensus.watch import Watch
from gapo.errors import InputError
from gapo.model.sharding import is_sharded
from gapo.objectives import depends_on_margin_alone
from gapo.training.dataset import prompt_numbers

if TYPE_CHECKING:
    from gapo.training.config import PreferenceConfig
    from gapo.training.trainer import PreferenceTrainer

logger = logging.getLogger("gapo")
START, RUNNING = "start", "running"
JUDGED, COLUMNS = "wrong.parquet", ("wrong", "consensus")


def judgement_for(trainer: PreferenceTrainer) -> Judgement | None:
    """The labels judged by the start model, once; None where they are not, or are judged as the run goes."""
    args = trainer.args
    if not trainer.objective.watched or args.consensus_judge == RUNNING:
        return None
    if args.consensus_judge != START:
        return _found_before(trainer, Path(args.consensus_judge))
    scope = scope_of(args)
    if scope != STATES:
        refuse_shards(trainer)
    groups = groups_of(trainer.train_dataset.pairs, args.consensus_within)
    pairs = trainer.train_dataset.encoded
    if len(pairs) < FEWEST:
        logger.warning("labels are judged by the direction of %d pairs, which is mostly chance", len(pairs))
    sketches = sketches_of(
        trainer.model,
        pairs,
        trainer.pad_id,
        scope=scope,
        cache=args.cache_reference,
        progress=trainer.books.progress("judging labels"),
        precision=trainer.accelerator.autocast,
        precision_name=str(trainer.accelerator.mixed_precision),
        shared=trainer.layout.shared,
        ranks=trainer.ranks,
    )
    found = judged(sketches, prompt_numbers(pairs), args.consensus_lead, groups)
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
    return Watch(scope_of(args), trainer.accelerator.autocast, trainer.ranks)


def scope_of(args: PreferenceConfig) -> str:
    """What judges the labels. A running judge takes the gradients it trains with; states would be a pass more."""
    running = args.consensus_judge == RUNNING
    if args.consensus_within != WHOLE and args.consensus_judge != START:
        raise InputError(
            f"consensus_within {args.consensus_within} takes consensus_judge start: a running judge hears all pairs, "
            "and an audit has chosen before"
        )
    if args.consensus_scope == AUTO:
        return FULL if running else STATES
    if running and args.consensus_scope == STATES:
        raise InputError(
            "consensus_judge running judges by the gradients it trains with, not by states; use consensus_scope full, "
            "or consensus_judge start"
        )
    return args.consensus_scope


def judging_forwards(args: PreferenceConfig) -> int:
    """What judging at the start takes, in forwards over all pairs: with gradients three."""
    if not args.chosen_objective().watched:
        return 0
    scope = scope_of(args)  # refused here too, so that a dry run says so
    if args.consensus_judge != START:
        return 0
    return 1 if scope == STATES else 3


def refuse_shards(trainer: PreferenceTrainer) -> None:
    if is_sharded(trainer.model):
        raise InputError(
            f"{trainer.objective.name} judges labels here by every pair's own gradient, which FSDP2 never shows; use "
            "consensus_judge start with consensus_scope states, or DDP"
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
