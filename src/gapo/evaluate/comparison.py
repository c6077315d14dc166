"""A model beside a base: every measure with its interval, and paired differences on the items both were measured on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gapo.evaluate.comparison_words import ALIGNMENT, GROUPS, NUMBER, PERCENT, REASONING, REWARD
from gapo.evaluate.quantity import Quantity, as_json, paired_difference, scaled
from gapo.evaluate.reward_subsets import NO_SUBSET, PairRewards, by_subset, reward_figures, wins
from gapo.evaluate.scores import Score, questions_of
from gapo.evaluate.verdicts import Judging


@dataclass(frozen=True)
class Measure:
    """One number of one model; `items` are its values by item (in its unit), `clusters` which items hang together.

    `key` says what the base's number must be to stand beside it: the name, unless that depends on the model.
    """

    group: str
    name: str
    unit: str
    found: Quantity | None
    items: Mapping[str, float] = field(default_factory=dict)
    clusters: Mapping[str, str] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""


@dataclass(frozen=True)
class Row:
    """A measure of both models; the difference is paired, and there only where items are the same."""

    group: str
    name: str
    unit: str
    model: Quantity | None
    base: Quantity | None
    difference: Quantity | None
    facts: Mapping[str, Any]


def compare(model: Sequence[Measure], base: Sequence[Measure]) -> list[Row]:
    """Rows in the order of groups, then as measured; a measure of one model alone has a row too."""
    ours, theirs = ({(each.group, each.key or each.name): each for each in side} for side in (model, base))
    rows = []
    for key in dict.fromkeys([*ours, *theirs]):
        one, other = ours.get(key), theirs.get(key)
        shown = one or other
        assert shown is not None
        difference = paired_difference(one.items, other.items, one.clusters) if one and other else None
        found = one.found if one else None, other.found if other else None
        rows.append(Row(shown.group, shown.name, shown.unit, *found, difference, shown.facts))
    return sorted(rows, key=lambda row: GROUPS.index(row.group))


def reward_measures(rewards: PairRewards, facts: Mapping[str, Any], words: str = "") -> list[Measure]:
    """Accuracy, also by length and subset, and the margin."""
    figures = reward_figures(rewards)
    right, longer = rewards.right(), rewards.chosen_characters - rewards.rejected_characters
    prompts = dict(zip(rewards.ids, rewards.prompt, strict=True))
    ids = [name for name, lead in zip(rewards.ids, longer, strict=True) if lead]
    preferred = 100 * wins(rewards.gain * np.sign(longer))[longer != 0]

    def items(keep: Iterable[bool]) -> dict[str, float]:
        return {name: 100 * float(won) for name, won, kept in zip(rewards.ids, right, keep, strict=True) if kept}

    def measure(name: str, found: Quantity | None, of: Mapping[str, float], unit: str = PERCENT) -> Measure:
        shown = scaled(found, 100) if unit == PERCENT else found
        return Measure(REWARD, f"{name}{words}", unit, shown, of, prompts, facts)

    margins = dict(zip(rewards.ids, rewards.gain.tolist(), strict=True))
    found = [
        measure("reward accuracy", figures["accuracy"], items([True] * len(rewards))),
        measure("accuracy where the shorter is chosen", figures["accuracy_against_length"], items(longer < 0)),
        measure("longer wins", figures["longer_wins"], dict(zip(ids, preferred.tolist(), strict=True))),
        measure("margin", figures["margin"], margins, NUMBER),
    ]
    for name, part in by_subset(rewards).items():
        own = items((subset or NO_SUBSET) == name for subset in rewards.subset)
        found.append(measure(f"reward accuracy, {name}", part["accuracy"], own))
    return [each for each in found if each.found is not None]


def task_measures(results: Mapping[str, Any]) -> list[Measure]:
    """Every metric of lm-eval's tasks; shares in percent."""
    conditions = {key: results[key] for key in ("lm_eval", "limit", "chat_template", "max_new_tokens", "seed", "data")}
    found = []
    for task, result in results["tasks"].items():
        facts = conditions | {key: result[key] for key in ("version", "num_fewshot", "n", "of", "complete")}
        for metric, value in result["metrics"].items():
            items = result["items"].get(metric, {})
            share = bool(items) and all(0 <= item <= 1 for item in items.values())
            quantity = Quantity(value["value"], value["low"], value["high"], value["n"])
            unit, factor = (PERCENT, 100) if share else (NUMBER, 1)
            scaled_items = {name: factor * item for name, item in items.items()}
            name = f"{task} {metric.removesuffix(',none').replace(',', ' ')}"
            found.append(Measure(REASONING, name, unit, scaled(quantity, factor), scaled_items, None, facts))
    return found


def score_measures(scores: Sequence[Score], judging: Judging) -> list[Measure]:
    """Scores of `gapo score`; the plain win rate has the questions behind it, for a paired difference."""
    asked = questions_of(judging)
    preference = {name: 100 * float(value) for name, value in zip(asked.ids, asked.preference, strict=True)}
    found = []
    same = (judging.bench, judging.bench_version, judging.judge, judging.prompt, judging.reference)
    for place, score in enumerate(scores):
        name = f"{score.name} against {judging.reference}"
        plain = place == 0 and math.isclose(score.value, sum(preference.values()) / len(preference))  # no weights
        quantity = Quantity(score.value, score.low, score.high, score.n)
        key = "|".join((str(place), *same))  # the name may say how many questions counted
        found.append(
            Measure(ALIGNMENT, name, PERCENT, quantity, preference if plain else {}, None, _score_facts(score), key)
        )
    return found


def _score_facts(score: Score) -> dict[str, Any]:
    names = ("judge", "judge_says", "prompt", "reference", "bench", "bench_version", "decoding", "official")
    return {name: score.facts[name] for name in names if name in score.facts} | {"dropped": dict(score.dropped)}


def as_object(rows: Sequence[Row], model: str, base: str, about: Mapping[str, Any]) -> dict[str, Any]:
    """The comparison as `evals.json` holds it."""
    kept = [
        {
            "group": row.group,
            "name": row.name,
            "unit": row.unit,
            **{key: as_json(getattr(row, key)) for key in ("model", "base", "difference")},
            "facts": dict(row.facts),
        }
        for row in rows
    ]
    return {"model": model, "base": base, **about, "rows": kept}
