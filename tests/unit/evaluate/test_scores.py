"""Win rates: laws over random judgings, and names that have to be earned."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapo.errors import InputError
from gapo.evaluate.length_control import Gamed
from gapo.evaluate.scores import (
    arena_hard,
    length_controlled,
    pairwise,
    questions_of,
    scores_of,
    share_interval,
    win_rate,
)
from judgings import OFFICIAL_ALPACA, game, judging, one_game_each, swapped

lengths = st.integers(1, 4000)
shares = st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0])
rows = st.lists(st.tuples(shares, lengths, lengths, st.sampled_from([1, 3])), min_size=2, max_size=25)
laws = settings(max_examples=40, deadline=None)
few = settings(max_examples=8, deadline=None)  # AlpacaEval's fit with its cross-validation


def both_orders(drawn):
    """Two games of a question from each pair of rows."""
    return judging(
        game(str(i // 2), share, game=i % 2, weight=weight, ours=drawn[i - i % 2][1], theirs=drawn[i - i % 2][2])
        for i, (share, _, _, weight) in enumerate(drawn)
    )


def own_length_control(one):
    return length_controlled(one, None, None)


def invented(count: int = 30, seed: int = 0) -> tuple[dict[str, float], Gamed]:
    rng = np.random.default_rng(seed)
    hard = rng.normal(0, 1, count)
    gamed = Gamed(rng.uniform(0, 1, 2 * count), rng.normal(0, 1, 2 * count), np.r_[hard, hard], official=True)
    return {str(i): float(value) for i, value in enumerate(hard)}, gamed


@laws
@given(rows)
def test_the_order_of_rows_does_not_matter(drawn):
    one = both_orders(drawn)
    turned = judging(one.verdicts[::-1])
    for score in (win_rate, pairwise, arena_hard, own_length_control):
        assert score(one) == score(turned)


@few
@given(rows)
def test_the_order_of_rows_does_not_matter_to_cross_validation(drawn):
    one = both_orders(drawn)
    assert length_controlled(one, *invented()) == length_controlled(judging(one.verdicts[::-1]), *invented())


@laws
@given(rows)
def test_swapping_the_models_gives_the_rest_of_a_hundred(drawn):
    one = both_orders(drawn)
    for score in (win_rate, pairwise, arena_hard, own_length_control):
        ours, theirs = score(one), score(swapped(one))
        assert ours.value + theirs.value == pytest.approx(100, abs=1e-4)
        assert (ours.low, ours.high) == pytest.approx((100 - theirs.high, 100 - theirs.low), abs=1e-3)


def test_questions_stand_in_the_order_of_the_official_list():
    games = [game(name, 1.0) for name in ("10", "q", "2", "0")]
    assert questions_of(judging(games)).ids == ["0", "2", "10", "q"]


@few
@given(rows)
def test_mirroring_everything_mirrors_alpacas_length_control(drawn):
    one = both_orders(drawn)
    difficulty, gamed = invented()
    mirrored = Gamed(1 - gamed.preference, -gamed.length, -gamed.difficulty)
    ours = length_controlled(one, difficulty, gamed).value
    theirs = length_controlled(swapped(one), {name: -hard for name, hard in difficulty.items()}, mirrored).value
    assert ours + theirs == pytest.approx(100, abs=1e-3)


@laws
@given(rows)
def test_at_equal_lengths_the_controlled_rate_is_the_plain_rate(drawn):
    one = one_game_each([r[0] for r in drawn], [r[1] for r in drawn], [r[1] for r in drawn])
    assert own_length_control(one).value == pytest.approx(win_rate(one).value, abs=1e-4)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.8])
def test_at_equal_lengths_alpacas_control_is_close_to_the_plain_rate(level):
    rng = np.random.default_rng(1)
    one = one_game_each(rng.beta(level, 1 - level, 300), same := rng.integers(50, 900, 300), same)
    difficulty, gamed = invented(300)
    assert length_controlled(one, difficulty, gamed).value == pytest.approx(win_rate(one).value, abs=0.5)


def test_the_model_against_itself_is_even_by_definition():
    itself = one_game_each([0.5] * 30, range(30), range(30), model="gpt", reference="gpt")
    assert length_controlled(itself, *invented()).value == 50


@laws
@given(rows)
def test_two_games_of_a_question_are_one_opinion(drawn):
    one = both_orders(drawn)
    means = [np.mean([v.preference for v in one.verdicts if v.id == name]) for name in {v.id for v in one.verdicts}]
    found = pairwise(one)
    assert found.value == pytest.approx(100 * np.mean(means))
    assert found.n == len(means)
    if len(means) > 1:
        assert found.standard_error == pytest.approx(100 * np.std(means, ddof=1) / np.sqrt(len(means)))
    assert found.low <= found.value + 1e-9
    assert found.value <= found.high + 1e-9
    assert found.low >= 0
    assert found.high <= 100


def test_how_often_the_order_alone_decided_is_said():
    games = [game("a", 1.0, game=0), game("a", 0.0, game=1), game("b", 1.0, game=0), game("b", 1.0, game=1)]
    facts = pairwise(judging([*games, game("c", 1.0)])).facts
    assert (facts["judged_in_both_orders"], facts["orders_disagree"]) == (2, 1)


def test_wilsons_interval_of_plain_wins():
    """11 of 60, against the formula's published value for 0.1833 (0.1056 to 0.2992)."""
    share = 11 / 60
    low, high = share_interval(share, np.sqrt(share * (1 - share) / 60), 60)
    assert (low, high) == pytest.approx((0.1056, 0.2992), abs=1e-4)


def test_the_interval_holds_its_promise_for_soft_preferences():
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(400):
        preference = rng.beta(0.3, 2.7, 60)  # mean 0.1, as AlpacaEval has it
        found = win_rate(one_game_each(preference, [1] * 60, [1] * 60))
        inside += found.low <= 10 <= found.high
    assert 0.92 < inside / 400 < 0.98


def test_a_clean_sweep_has_an_interval_still():
    found = win_rate(one_game_each([1.0] * 20, [1] * 20, [1] * 20))
    assert (found.value, found.high) == (100, 100)
    assert 80 < found.low < 90


def test_subsets_have_their_own_rates():
    games = [game("1", 1.0, subset="koala"), game("2", 0.0, subset="koala"), game("3", 1.0, subset="oasst")]
    assert win_rate(judging(games)).facts["subsets"] == {
        "koala": {"value": 50, "n": 2},
        "oasst": {"value": 100, "n": 1},
    }


def test_unreadable_games_are_dropped_and_counted():
    games = [game("1", 1.0), game("2", None, status="empty"), game("3", None, status="truncated"), game("4", 0.0)]
    found = win_rate(judging(games))
    assert (found.value, found.n, found.dropped) == (50, 2, {"empty": 1, "truncated": 1})


def test_nothing_readable_is_said():
    with pytest.raises(InputError, match=r"no verdict on mine could be read \(2 failed\)"):
        win_rate(judging([game("1", None, status="failed"), game("2", None, status="failed")]))


@pytest.fixture
def official():
    rng = np.random.default_rng(0)
    return one_game_each(rng.uniform(0, 1, 805), *rng.integers(1, 3000, (2, 805)), **OFFICIAL_ALPACA)


def test_the_official_name_is_earned(official):
    assert win_rate(official).name == "AlpacaEval 2.0 win rate"
    assert length_controlled(official, *invented(805)).name == "AlpacaEval 2.0 length-controlled win rate"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"judge": "gpt-4o"}, "the judge is gpt-4o, not gpt-4-1106-preview"),
        ({"judge_says": "llama"}, "the server says its model is llama, not gpt-4-1106-preview"),
        ({"prompt": "alpaca@3"}, "the judge's prompt is alpaca@3, not alpaca_eval_clf@official"),
        ({"reference": "text_davinci_003"}, "the reference is text_davinci_003, not gpt4_1106_preview"),
        ({"complete": False}, "the questions are not the 805 official ones"),
        (
            {"judge_options": {"read_by": {"text": 7, "log-probs": 798}}},
            "7 verdicts were read from text, not from log-probs",
        ),
    ],
)
def test_every_condition_counts(official, change, reason):
    found = win_rate(judging(official.verdicts, **(OFFICIAL_ALPACA | change)))
    assert found.name == "win rate on AlpacaEval's questions"
    assert found.facts["not_official_because"] == [reason]


def test_a_dropped_game_or_other_gamed_rows_cost_the_name(official):
    games = [game("0", None, status="malformed"), *official.verdicts[1:]]
    found = win_rate(judging(games, **OFFICIAL_ALPACA))
    assert found.name == "win rate on AlpacaEval's questions"
    assert found.facts["not_official_because"] == ["1 of 805 games have no readable verdict"]
    difficulty, gamed = invented(805)
    other = Gamed(gamed.preference, gamed.length, gamed.difficulty)
    assert "AlpacaEval 2.0" not in length_controlled(official, difficulty, other).name


def test_a_number_carries_what_it_hangs_on(official):
    facts = win_rate(official).facts
    assert facts["judge"] == "gpt-4-1106-preview"
    assert {"prompt", "reference", "decoding", "bench_version", "judge_says"} <= set(facts)


def test_without_its_data_the_length_control_is_left_out_and_said(official, tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    said: list[str] = []
    assert [score.name for score in scores_of(official, tmp_path, tell=said.append)] == ["AlpacaEval 2.0 win rate"]
    assert "df_gamed.csv of tatsu-lab/alpaca_eval is needed" in said[0]
    with pytest.raises(InputError, match="--data-dir"):
        scores_of(official, tmp_path)


def test_other_prompts_have_a_win_rate_and_one_at_equal_lengths():
    names = [score.name for score in scores_of(one_game_each([1.0, 0.0, 1.0], [1, 2, 3], [3, 2, 2]))]
    assert names == [
        "win rate on prompts.jsonl",
        "win rate at equal lengths on prompts.jsonl",
    ]
