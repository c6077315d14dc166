"""Reward accuracy on pairs whose labels are trusted."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from torch import nn

from gapo.model.logps import PairLogps
from gapo.model.passes import Precision
from gapo.model.ranks import ALONE, Ranks
from gapo.model.reference import Progress, logps_of, no_progress
from gapo.objectives import Objective
from gapo.training.dataset import EncodedPairs
from gapo.training.metrics import accuracy, preference_metrics, wilson_interval


def reward_report(
    model: nn.Module,
    pairs: EncodedPairs,
    pad_id: int,
    objective: Objective,
    reference: PairLogps | None = None,
    progress: Progress = no_progress,
    precision: Precision = nullcontext,
    shared: bool = False,
    ranks: Ranks = ALONE,
) -> dict[str, Any]:
    """Accuracy of the objective's own reward with a 95 % interval, and of the plain length-normalised likelihood."""
    policy = logps_of(model, pairs.encoded, pad_id, progress, precision, shared, ranks)
    report: dict[str, Any] = preference_metrics(objective, policy, reference)
    report["accuracy_interval"] = list(wilson_interval(report["accuracy"], len(pairs)))
    report["likelihood_accuracy"] = accuracy(policy.margin)
    return report
