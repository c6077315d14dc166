"""Everything about a model beside a base: alignment, reasoning, reward accuracy, drift; one table."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gapo.errors import InputError
from gapo.evaluate.comparison import Measure, as_object, compare, reward_measures, score_measures, task_measures
from gapo.evaluate.comparison_words import DRIFT, NATS, markdown
from gapo.evaluate.drift import drift_of, responses_of
from gapo.evaluate.quantity import mean_of
from gapo.evaluate.reasoning import TaskSettings, need_extra, run_tasks
from gapo.evaluate.reward import IMPLICIT, LIKELIHOOD, encode_for, pair_rewards, subject_logps
from gapo.evaluate.scores import scores_of
from gapo.evaluate.subject import Subject, load_subject, same_tokens
from gapo.evaluate.tables import write_result
from gapo.evaluate.verdicts import read_judging
from gapo.model.logps import PairLogps
from gapo.pairs.formats import load_pairs
from gapo.pairs.pair import PairSet
from gapo.runs.lab_evals import is_lab, lab_measures
from gapo.training.dataset import EncodedPairs

DRIFT_PAIRS = 256  # enough for a narrow interval; each passes through both models
EVALS = "evals"
KEY = "comparison"
Say = Callable[[str], None]


@dataclass(frozen=True)
class Wanted:
    """What is measured. `judged`, `base_judged`: folders of `gapo judge` about the model, about the base."""

    data: str | None = None
    split: str | None = None
    limit: int | None = None
    template: str = "auto"
    max_length: int = 2048
    tasks: tuple[str, ...] = ()
    settings: TaskSettings = field(default_factory=TaskSettings)
    judged: tuple[Path, ...] = ()
    base_judged: tuple[Path, ...] = ()
    seed: int = 0
    trust_remote_code: bool = False


def evaluate_all(model_name: str, base_name: str, wanted: Wanted, say: Say) -> dict[str, Any]:
    """The comparison as `evals.json` holds it; what is wrong with the input is found before anything is measured."""
    if wanted.tasks:
        need_extra(wanted.tasks)
    ours, theirs = (
        [m for path in paths for m in _judged(path, wanted, say)] for paths in (wanted.judged, wanted.base_judged)
    )
    pairs = load_pairs(wanted.data, split=wanted.split, limit=wanted.limit) if wanted.data else None
    model, base = (
        load_subject(name, say, trust_remote_code=wanted.trust_remote_code) for name in (model_name, base_name)
    )
    if is_lab(model) and is_lab(base):
        say("the lab's bench: true quality, sums")
        of_model, of_base = lab_measures(model, base, wanted.seed)
        ours, theirs = ours + of_model, theirs + of_base
    for subject, found in ((model, ours), (base, theirs)):
        if wanted.tasks:
            say(f"{', '.join(wanted.tasks)} with {subject.name}")
            found += task_measures(run_tasks(subject, wanted.tasks, wanted.settings))
    if pairs is not None:
        of_model, of_base = _on_pairs(model, base, pairs, wanted, say)
        ours, theirs = ours + of_model, theirs + of_base
    if not ours:
        raise InputError("nothing to measure; give --data, --tasks or --judged")
    about = {"measured": datetime.now(UTC).isoformat(timespec="seconds"), "seed": wanted.seed}
    return as_object(compare(ours, theirs), model_name, base_name, about)


def _judged(path: Path, wanted: Wanted, say: Say) -> list[Measure]:
    judging = read_judging(path)
    return score_measures(scores_of(judging, wanted.settings.data_dir, tell=say), judging)


def _on_pairs(
    model: Subject, base: Subject, pairs: PairSet, wanted: Wanted, say: Say
) -> tuple[list[Measure], list[Measure]]:
    """Reward accuracy of both on the same pairs, the model's reward above the base, and how far it is from the base."""
    facts = {"data": pairs.name, "pairs": len(pairs)}
    found: list[list[Measure]] = []
    logps: list[tuple[EncodedPairs, PairLogps]] = []
    for subject in (model, base):
        say(f"{len(pairs):,} pairs with {subject.name}")
        encoded = encode_for(subject, pairs, template=wanted.template, max_length=wanted.max_length)
        logps.append((encoded, subject_logps(subject, encoded)))
        rewards = pair_rewards(encoded, LIKELIHOOD, logps[-1][1], None)
        found.append(reward_measures(rewards, {**facts, "reward": "log p(y) / |y|"}))
    if not same_tokens(model, base):
        say("no implicit reward and no drift: the models have different tokenizers")
        return found[0], found[1]
    encoded = logps[0][0]
    implicit = pair_rewards(encoded, IMPLICIT, logps[0][1], logps[1][1])
    words = {**facts, "reward": "log p(y) - log p_base(y)"}
    found[0] += reward_measures(implicit, words, ", above the base")
    found[0] += _drift(model, base, encoded, facts, say)
    return found[0], found[1]


def _drift(model: Subject, base: Subject, encoded: EncodedPairs, facts: dict[str, Any], say: Say) -> list[Measure]:
    some = [encoded.encoded[i] for i in range(min(len(encoded), DRIFT_PAIRS))]
    say(f"drift on the responses of {len(some):,} pairs")
    drift = drift_of(model.model, base.model, responses_of(some), model.pad_id)
    about = {**facts, "pairs": len(some), "on": "the pairs' responses"}
    both = {"KL(model || base)": drift.model_base, "KL(base || model)": drift.base_model}
    return [Measure(DRIFT, way, NATS, mean_of(kl, drift.groups, drift.tokens), facts=about) for way, kl in both.items()]


def write_comparison(comparison: dict[str, Any], folder: Path) -> Path:
    """evals.json, where a run's own results stay beside it, and evals.md."""
    path = folder / f"{EVALS}.json"
    kept: dict[str, Any] = {}
    if path.is_file():
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            raise InputError(
                f"{path} is not readable JSON; move it away, or choose another folder with --out"
            ) from None
    return write_result(folder, EVALS, {**kept, KEY: comparison}, markdown(comparison))
