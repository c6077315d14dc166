"""Reward accuracy on pairs whose labels are trusted."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from gapo.diagnostics.intervals import Numbers
from gapo.errors import InputError
from gapo.evaluate.quantity import as_json
from gapo.evaluate.reward_subsets import PairRewards, by_subset, reward_figures
from gapo.evaluate.subject import Subject
from gapo.model.layout import choose_layout, telling_pairs
from gapo.model.logps import PairLogps
from gapo.model.passes import Precision
from gapo.model.policy import fitting_length
from gapo.model.ranks import ALONE, Ranks
from gapo.model.reference import Progress, logps_of, no_progress, reference_logps
from gapo.objectives import Objective
from gapo.objectives.registry import Reward, get_objective
from gapo.pairs.encode import Encoder
from gapo.training.admission import refuse_foreign_ids
from gapo.training.dataset import EncodedPairs, encoded_pairs
from gapo.training.metrics import accuracy, preference_metrics
from gapo.training.wilson import wilson_interval

LIKELIHOOD, IMPLICIT = Reward(per_token=True, relative=False), Reward(per_token=False, relative=True)


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
    policy: PairLogps | None = None,
) -> tuple[dict[str, Any], dict[str, Numbers]]:
    """Accuracy of the objective's own reward with a 95 % interval, and of the plain length-normalised likelihood.

    And, for every pair, what they come from: gain of the reward, margin, tokens. `policy`: where its log-probs are
    known.
    """
    if policy is None:
        policy = logps_of(model, pairs.encoded, pad_id, progress, precision, shared, ranks)
    report: dict[str, Any] = preference_metrics(objective, policy, reference)
    report["accuracy_interval"] = list(wilson_interval(report["accuracy"], len(pairs)))
    report["likelihood_accuracy"] = accuracy(policy.margin)
    columns = {
        "gain": objective.reward.gain(policy, reference),
        "margin": policy.margin,
        "chosen_tokens": policy.chosen_tokens,
        "rejected_tokens": policy.rejected_tokens,
    }
    return report, {name: column.double().numpy() for name, column in columns.items()}


@dataclass(frozen=True)
class RewardKind:
    """A reward and how to call it."""

    reward: Reward
    words: str
    objective: str | None = None


def reward_kind(objective: str | None, reference: str | None) -> RewardKind:
    """The objective's own reward; else DPO's implicit one where there is a reference, else the likelihood per token."""
    if objective is None:
        words = f"log p(y) - log p_ref(y), reference {reference}" if reference else "log p(y) / |y|"
        return RewardKind(IMPLICIT if reference else LIKELIHOOD, words)
    reward = get_objective(objective).reward
    if reward.relative and reference is None:
        raise InputError(f"the reward of {objective} is relative to a reference; name it with --reference")
    if reference is not None and not reward.relative:
        raise InputError(f"the reward of {objective} needs no reference; leave --reference out, or --objective")
    words = ("log p(y) / |y|" if reward.per_token else "log p(y)") + (" above the reference" if reward.relative else "")
    return RewardKind(reward, f"{words} ({objective}{f', reference {reference}' if reference else ''})", objective)


def encode_for(subject: Subject, source: Any, *, template: str = "auto", max_length: int = 2048) -> EncodedPairs:
    """The pairs in the model's tokens."""
    longest = fitting_length(subject.model, max_length)
    found = encoded_pairs(source, Encoder(subject.tokenizer, max_length=longest, template=template))
    refuse_foreign_ids(subject.model, found)
    return found


def subject_logps(
    subject: Subject, pairs: EncodedPairs, progress: Progress = no_progress, *, kept: bool = False
) -> PairLogps:
    """Log-probs of all pairs; both responses share a row where that changes nothing.

    `kept`: of a model that many others are compared with, computed once and read from the cache after that.
    """
    shared = choose_layout(subject.model, telling_pairs(subject.model, pairs.encoded), subject.pad_id).shared
    compute = reference_logps if kept else logps_of
    return compute(subject.model, pairs.encoded, subject.pad_id, progress=progress, shared=shared)


def pair_rewards(pairs: EncodedPairs, kind: Reward, policy: PairLogps, reference: PairLogps | None) -> PairRewards:
    """The rewards as columns, beside lengths, subsets and prompts."""
    assert pairs.pairs is not None
    gain = kind.gain(policy, reference).double().numpy()
    texts = [(len(p.chosen), len(p.rejected), p.subset or "", p.prompt_text) for p in pairs.pairs]
    chosen, rejected, subsets, prompts = zip(*texts, strict=True)
    return PairRewards(pairs.pairs.ids, gain, np.array(chosen), np.array(rejected), subsets, prompts)


def reward_evaluation(rewards: PairRewards, kind: RewardKind) -> dict[str, Any]:
    """All figures, of all pairs and of each subset, as an object of evals files."""
    figures = {name: as_json(found) for name, found in reward_figures(rewards).items()}
    parts = by_subset(rewards)
    subsets = {name: {key: as_json(found) for key, found in part.items()} for name, part in parts.items()}
    return {"reward": kind.words, "objective": kind.objective, "pairs": len(rewards), **figures, "subsets": subsets}
