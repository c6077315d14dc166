"""Arena-Hard's score is a Bradley-Terry fit."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from gapo.evaluate.scores import arena_hard
from judgings import OFFICIAL_ARENA, game, judging

VERDICTS = {"A>>B": (1.0, 3), "A>B": (1.0, 1), "A=B": (0.5, 1), "B>A": (0.0, 1), "B>>A": (0.0, 3)}


@pytest.fixture
def games():
    rng = np.random.default_rng(0)
    said = rng.choice(list(VERDICTS), (200, 2), p=[0.1, 0.2, 0.2, 0.35, 0.15])
    return [
        game(f"q{i}", VERDICTS[words][0], game=place, weight=VERDICTS[words][1])
        for i, both in enumerate(said)
        for place, words in enumerate(both)
    ]


def bradley_terry(verdicts) -> float:
    """The strengths of both players from battles written out one by one: thrice for a double arrow, a tie as half each.

    P(ours wins) = 10^(s/400) / (10^(s/400) + 10^(t/400)), fitted without gradients.
    """
    wins = losses = 0.0
    for verdict in verdicts:
        for _ in range(verdict.weight):
            wins += verdict.preference
            losses += 1 - verdict.preference

    def cost(strengths):
        ours, theirs = 10 ** (np.asarray(strengths) / 400)
        share = ours / (ours + theirs)
        return -(wins * np.log(share) + losses * np.log(1 - share)) + 1e-9 * np.sum(np.square(strengths))

    ours, theirs = minimize(cost, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-12}).x
    return 100 / (1 + 10 ** ((theirs - ours) / 400))


def test_the_score_is_a_bradley_terry_fit(games):
    assert arena_hard(judging(games)).value == pytest.approx(bradley_terry(games), abs=1e-4)


def test_a_double_arrow_counts_three_times():
    assert arena_hard(judging([game("a", 1.0, weight=3), game("b", 0.0)])).value == pytest.approx(75)


def test_unreadable_games_are_dropped_and_counted(games):
    broken = [game(f"q{i}", None, game=0, status=status) for i, status in enumerate(["malformed", "truncated"] * 3)]
    kept = [verdict for verdict in games if (verdict.id, verdict.game) not in {(f"q{i}", 0) for i in range(6)}]
    found = arena_hard(judging([*broken, *kept]))
    assert found.value == pytest.approx(bradley_terry(kept), abs=1e-4)
    assert (found.dropped, found.n, found.facts["games"]) == ({"malformed": 3, "truncated": 3}, 200, 394)


def test_the_interval_is_that_of_drawing_questions(games):
    found = arena_hard(judging(games), draws=4000, seed=0)
    rng = np.random.default_rng(7)
    by_question = [[v for v in games if v.id == f"q{i}"] for i in range(200)]
    drawn = []
    for _ in range(1000):
        some = [verdict for i in rng.integers(0, 200, 200) for verdict in by_question[i]]
        drawn.append(100 * np.average([v.preference for v in some], weights=[v.weight for v in some]))
    assert found.standard_error == pytest.approx(np.std(drawn), rel=0.1)
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])), abs=0.6)


def test_two_games_that_always_agree_are_no_more_than_one(games):
    first = [verdict for verdict in games if verdict.game == 0]
    twice = [*first, *(game(v.id, v.preference, game=1, weight=v.weight) for v in first)]
    one, two = arena_hard(judging(first)), arena_hard(judging(twice))
    assert (one.value, one.low, one.high) == pytest.approx((two.value, two.low, two.high))


def test_a_seed_gives_the_same_interval_in_any_order(games):
    assert arena_hard(judging(games), seed=3) == arena_hard(judging(games[::-1]), seed=3)
    assert arena_hard(judging(games), seed=3).low != arena_hard(judging(games), seed=4).low


def test_the_official_name_needs_all_500_questions_in_both_orders():
    games = [game(f"q{i}", 1.0, game=place) for i in range(500) for place in (0, 1)]
    assert arena_hard(judging(games, **OFFICIAL_ARENA)).name == "Arena-Hard v0.1 win rate"
    less = arena_hard(judging(games[:-1], **OFFICIAL_ARENA))
    assert less.name == "win rate on Arena-Hard's questions"
    assert less.facts["not_official_because"] == ["there are 999 games, not 1000"]
    warm = arena_hard(judging(games, **(OFFICIAL_ARENA | {"judge_options": {"temperature": 0.7}})))
    assert warm.facts["not_official_because"] == ["the judge's temperature is not the official one"]
