"""Scores of a judged model, in percent, with their doubt and under a name they have earned.

Every score is over questions: the games of one question are one opinion. Games that could not be read are left out and
counted. The order of the games does not matter.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapo.errors import InputError
from gapo.evaluate.arena import DRAWS, weighted_rate
from gapo.evaluate.conditions import CONDITIONS
from gapo.evaluate.length_control import Controlled, Gamed, alpaca_controlled, at_equal_lengths
from gapo.evaluate.length_data import length_data
from gapo.evaluate.questions import ALPACAEVAL, ARENA_HARD
from gapo.evaluate.verdicts import OK, Judging, Verdict
from gapo.training.wilson import wilson_interval

Numbers = NDArray[np.float64]
FACTS = ("model", "reference", "judge", "judge_says", "prompt", "decoding", "judge_options", "bench", "bench_version")


@dataclass(frozen=True)
class Score:
    """A number in percent; `n` questions count, `dropped` says how many games did not, and why."""

    name: str
    value: float
    standard_error: float | None
    low: float | None
    high: float | None
    n: int
    dropped: Mapping[str, int] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Questions:
    """What the readable games say of each question, in the order of ids."""

    ids: list[str]
    games: list[list[Verdict]]

    @property
    def preference(self) -> Numbers:
        """The mean of a question's games: two orders of one pair are one opinion."""
        return np.array([np.mean([_said(verdict) for verdict in games]) for games in self.games])

    @property
    def theirs_longer(self) -> Numbers:
        return np.array([games[0].theirs - games[0].ours for games in self.games], float)

    @property
    def subsets(self) -> dict[str, dict[str, float]]:
        found: dict[str, list[float]] = {}
        for games, preference in zip(self.games, self.preference, strict=True):
            found.setdefault(games[0].subset, []).append(preference)
        return {name: {"value": 100 * float(np.mean(x)), "n": len(x)} for name, x in sorted(found.items()) if name}


def questions_of(judging: Judging) -> Questions:
    """The readable games by question; an error where there is none."""
    ordered = sorted((each for each in judging.verdicts if each.status == OK), key=_place)
    grouped = {name: list(games) for name, games in groupby(ordered, key=lambda verdict: verdict.id)}
    if not grouped:
        counts = ", ".join(f"{count} {status}" for status, count in judging.counts.items()) or "no games"
        raise InputError(f"nothing to score: no verdict on {judging.model} could be read ({counts}); judge it again")
    return Questions(list(grouped), list(grouped.values()))


def _said(verdict: Verdict) -> float:
    if verdict.preference is None:
        raise InputError(f"game {verdict.game} of question {verdict.id} is ok without a preference; judge it again")
    return verdict.preference


def _place(verdict: Verdict) -> tuple[float, str, int]:
    return (int(verdict.id) if verdict.id.isdecimal() else math.inf, verdict.id, verdict.game)


def win_rate(judging: Judging) -> Score:
    """The mean preference over questions, with the standard error of a mean."""
    asked = questions_of(judging)
    return _score(judging, "win rate", asked, *_mean(asked.preference), facts={"subsets": asked.subsets})


def pairwise(judging: Judging) -> Score:
    """The win rate where a judge sees both orders, with how often the order alone decided."""
    asked = questions_of(judging)
    both = [games for games in asked.games if len({verdict.swapped for verdict in games}) == 2]
    split = [games for games in both if len({np.sign(_said(verdict) - 0.5) for verdict in games}) > 1]
    facts = {"judged_in_both_orders": len(both), "orders_disagree": len(split), "subsets": asked.subsets}
    return _score(judging, "win rate", asked, *_mean(asked.preference), facts=facts)


def length_controlled(judging: Judging, difficulty: Mapping[str, float] | None, gamed: Gamed | None) -> Score:
    """AlpacaEval's length-controlled win rate; without difficulties and gamed rows, the win rate at equal lengths."""
    asked = questions_of(judging)
    if difficulty is None or gamed is None:
        found = at_equal_lengths(asked.preference, asked.theirs_longer)
        return _controlled(judging, "win rate at equal lengths", asked, found, ["length is controlled by our own fit"])
    unknown = [name for name in asked.ids if name not in difficulty]
    if unknown:
        raise InputError(f"question {unknown[0]} has no difficulty; length control needs AlpacaEval's own questions")
    why = [] if gamed.official else ["the rows of the gamed baselines are not the official ones"]
    if judging.model == judging.reference:  # by definition, as in the original: it has no length to control
        found = Controlled(0.5, 0.0, np.zeros(3))
    else:
        hard = [difficulty[name] for name in asked.ids]
        found = alpaca_controlled(asked.preference, asked.theirs_longer, hard, gamed)
    return _controlled(judging, "length-controlled win rate", asked, found, why)


def arena_hard(judging: Judging, draws: int = DRAWS, seed: int = 0) -> Score:
    """The weighted mean of all readable games, equal to a Bradley-Terry fit; the interval draws questions."""
    asked = questions_of(judging)
    games = [verdict for each in asked.games for verdict in each]
    preference, weight = np.array([(_said(verdict), verdict.weight) for verdict in games]).T
    rate = weighted_rate(preference, weight, [verdict.id for verdict in games], draws, seed)
    facts = {"games": len(games), "double_arrows": sum(v.weight > 1 for v in games), "draws": draws, "seed": seed}
    return _score(judging, "win rate", asked, rate.value, rate.standard_error, (rate.low, rate.high), facts=facts)


def scores_of(
    judging: Judging, data_dir: Path | None = None, draws: int = DRAWS, tell: Callable[[str], None] | None = None
) -> list[Score]:
    """Every score that this bench allows.

    Where the data of AlpacaEval's length control cannot be had, that is told and the score left out; nobody to tell is
    an error.
    """
    if judging.bench == ARENA_HARD:
        return [arena_hard(judging, draws)]
    if judging.bench != ALPACAEVAL:
        return [pairwise(judging), length_controlled(judging, None, None)]
    scores = [win_rate(judging)]
    try:
        scores.append(length_controlled(judging, *length_data(data_dir)))
    except InputError as error:
        if tell is None:
            raise
        tell(f"no length-controlled win rate for {judging.model}: {error}")
    return scores


def _controlled(judging: Judging, what: str, asked: Questions, found: Controlled, why: list[str]) -> Score:
    facts = {"coefficients": found.coefficients.tolist()}
    interval = share_interval(found.value, found.standard_error, len(asked.ids))
    return _score(judging, what, asked, found.value, found.standard_error, interval, why, facts)


def _mean(preference: Numbers) -> tuple[float, float, tuple[float, float]]:
    count, value = len(preference), float(preference.mean())
    error = float(preference.std(ddof=1) / math.sqrt(count)) if count > 1 else math.nan
    return value, error, share_interval(value, error, count)


def share_interval(share: float, standard_error: float, count: int) -> tuple[float, float]:
    """Wilson's 95 % interval for as many games as the standard error is worth: share (1 - share) / error^2.

    It stays within [0, 1] and holds near the ends. Where all questions agree the error is 0, but for rounding, and says
    nothing: then each counts as one game.
    """
    worth = share * (1 - share) / standard_error**2 if standard_error > 1e-9 else 0.0
    return wilson_interval(share, worth if worth > 0 else float(count))


def _score(
    judging: Judging,
    what: str,
    asked: Questions,
    value: float,
    error: float,
    interval: tuple[float, float],
    why: list[str] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Score:
    """In percent, under the official name where all its conditions hold, else under a plain one with the reasons."""
    rules = CONDITIONS.get(judging.bench)
    broken = [*rules.broken_by(judging), *(why or [])] if rules else []
    known = {name: getattr(judging, name) for name in FACTS} | dict(facts or {})
    if rules:
        known |= {"official": not broken, "not_official_because": broken}
    dropped = Counter(verdict.status for verdict in judging.verdicts if verdict.status != OK)
    return Score(
        name=f"{rules.title} {what}" if rules and not broken else _plain(judging, what),
        value=100 * value,
        standard_error=100 * error if math.isfinite(error) else None,
        low=100 * interval[0],
        high=100 * interval[1],
        n=len(asked.ids),
        dropped=dict(dropped),
        facts=known,
    )


def _plain(judging: Judging, what: str) -> str:
    rules = CONDITIONS.get(judging.bench)
    return f"{what} on {rules.owner}'s questions" if rules else f"{what} on {judging.bench}"
