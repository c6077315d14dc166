"""All games against a judge on loopback: its opinion comes back, whatever the order and whatever goes wrong."""

from __future__ import annotations

import itertools

import pytest

from gapo.errors import InputError
from gapo.evaluate.endpoint import Endpoint, EndpointError
from gapo.evaluate.judge import AlpacaJudge, ArenaJudge, PairJudge, games_of, judge_answers, judge_of, left_of
from gapo.evaluate.verdict_cache import VerdictCache
from gapo.evaluate.verdicts import EMPTY, FAILED, MALFORMED, OK, TRUNCATED, Reading, read_judging
from judged import answers, bench, five_labels, likes_ours, one_token, shown, three_labels
from loopback import Says, Server, completion


async def no_pause(seconds: float) -> None:
    """The clock of tests."""


def preferences(judging):
    return [each.preference for each in judging.verdicts]


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def judged(tmp_path):
    """Judge a small bench; the same cache and folder every time."""

    def run(server, kind=AlpacaJudge, size=20, *, retries=2, concurrency=4, model="judge-1", **options):
        questions = bench(size)
        judge = kind(Endpoint(server.url, model, retries=retries, sleep=no_pause), **options)
        cache = VerdictCache(tmp_path / "cache.jsonl")
        ours, theirs = answers(questions), answers(questions, "theirs")
        return judge_answers(questions, ours, theirs, judge, cache, tmp_path / "out", concurrency=concurrency)

    run.folder = tmp_path / "out"
    run.cache = tmp_path / "cache.jsonl"
    return run


def test_one_token_judging_is_the_judges_opinion(judged):
    with Server(one_token) as server:
        judging = judged(server)
    assert preferences(judging) == pytest.approx([likes_ours(n) for n in range(20)], abs=1e-12)
    assert {each.swapped for each in judging.verdicts} == {True, False}  # and it was asked from both sides
    assert [each.id for each in judging.verdicts] == [str(n) for n in range(20)]
    assert judging.judge_options["read_by"] == {"log-probs": 20}
    assert (judging.verdicts[3].ours, judging.verdicts[3].theirs, judging.verdicts[3].subset) == (6, 8, "odd")
    assert read_judging(judged.folder) == judging


def test_without_log_probs_the_text_decides(judged):
    def no_logprobs(body, number):
        says = one_token(body)
        del says.body["choices"][0]["logprobs"]
        return says

    with Server(no_logprobs) as server:
        judging = judged(server)
    assert preferences(judging) == [float(likes_ours(n) > 0.5) for n in range(20)]
    assert judging.judge_options["read_by"] == {"text": 20}


def test_five_labels_in_two_games(judged):
    with Server(five_labels) as server:
        judging = judged(server, ArenaJudge, 5)
    found = [(each.id, each.game, each.swapped, each.preference, each.weight) for each in judging.verdicts]
    opinion = [(1.0, 3), (1.0, 1), (0.5, 1), (0.0, 1), (0.0, 3)]
    assert found == [(str(n), game, game == 0, *opinion[n]) for n in range(5) for game in range(2)]
    assert {body["temperature"] for body in server.asked} == {0.0}


def test_a_plain_comparison_in_both_orders(judged):
    with Server(three_labels) as server:
        judging = judged(server, PairJudge, 4)
    assert preferences(judging) == [1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0]


def test_a_judge_that_always_likes_the_first_wins_nobody_anything(judged):
    with Server(lambda body, number: Says(completion("[[A>>B]]"))) as server:
        judging = judged(server, ArenaJudge, 6)
    assert sum(each.preference for each in judging.verdicts) == 6


def test_what_is_decided_is_not_asked_again(judged):
    with Server(one_token) as server:
        first = judged(server, size=10)
        assert len(server.asked) == 10
        assert judged(server, size=10) == first
        assert len(server.asked) == 10
        judged(server, size=15)  # more questions: only the new ones
        assert len(server.asked) == 15


@pytest.mark.parametrize("change", [{"temperature": 0.3}, {"max_tokens": 7}, {"model": "judge-2"}, {"kind": PairJudge}])
def test_another_judge_is_asked_anew(judged, change):
    with Server(lambda body, number: three_labels(body) if "[[tie]]" in str(body) else one_token(body)) as server:
        judged(server, size=3)
        judged(server, size=3, **change)
    assert len(server.asked) == (9 if "kind" in change else 6)


def test_every_part_of_the_content_is_in_the_key():
    questions = bench(2)
    ours, theirs = answers(questions), answers(questions, "theirs")
    endpoint = Endpoint("http://localhost/v1", "judge-1")
    keys = [
        games_of(questions, first, second, judge)[place].key
        for first, second in ((ours, theirs), (theirs, ours))
        for judge in (ArenaJudge(endpoint), PairJudge(endpoint), ArenaJudge(endpoint, temperature=0.5))
        for place in range(4)
    ]
    assert len(set(keys)) == len(keys)
    assert keys[:4] == [game.key for game in games_of(questions, ours, theirs, ArenaJudge(endpoint))]


def test_equal_answers_are_a_draw_for_nothing(tmp_path):
    questions = bench(3)
    ours = answers(questions)
    with Server(one_token) as server:
        judge = AlpacaJudge(Endpoint(server.url, "judge-1"))
        judging = judge_answers(questions, ours, ours, judge, VerdictCache(tmp_path / "c"), tmp_path / "out")
    assert preferences(judging) == [0.5] * 3
    assert not server.asked


def test_a_missing_answer_is_named(tmp_path):
    questions = bench(3)
    with pytest.raises(InputError, match="ours has no answer to question 2"):
        games_of(questions, answers(bench(2)), answers(questions), AlpacaJudge(Endpoint("http://x/v1", "j")))


def test_what_cannot_be_read_is_counted_and_kept(judged):
    replies = {
        0: completion("", finish="stop"),
        1: completion("", finish="length"),
        2: {"choices": []},
        3: completion("Both are good", finish="stop"),
        4: completion("Well, the first of the two", finish="length"),
    }

    def answer(body, number):
        question = shown(body)[0]
        return Says(replies[question]) if question in replies else one_token(body)

    with Server(answer) as server:
        judging = judged(server, size=8)
        assert judged(server, size=8) == judging
    assert len(server.asked) == 8  # these were paid for too
    assert judging.counts == {OK: 3, TRUNCATED: 2, EMPTY: 2, MALFORMED: 1}
    assert [each.status for each in judging.verdicts[:5]] == [EMPTY, TRUNCATED, EMPTY, MALFORMED, TRUNCATED]
    assert all(each.preference is None for each in judging.verdicts[:5])
    assert judging.verdicts[3].text == "Both are good"
    cache = VerdictCache(judged.cache)
    cache.forget_unreadable()
    assert len(cache) == 3


def test_a_game_that_fails_for_itself_does_not_stop_the_others(judged):
    def answer(body, number):
        if shown(body)[0] == 2:
            return Says({"error": {"message": "context too long"}}, 400)
        return one_token(body)

    with Server(answer) as server:
        judging = judged(server, size=6)
        assert judging.counts == {OK: 5, FAILED: 1}
        assert "context too long" in judging.verdicts[2].text
        judged(server, size=6)
    assert len(server.asked) == 7  # what failed is asked for again, the rest is not


def test_a_server_that_refuses_everything_ends_it(judged):
    with Server(lambda body, number: Says({"error": {"message": "no such option"}}, 400)) as server:
        with pytest.raises(EndpointError, match=r"no such option.*0 of 20 games"):
            judged(server)
        assert len(server.asked) < 12


def test_a_mixture_of_troubles_changes_no_verdict(judged):
    """429, 500, cuts and nonsense, one after another on every question; the opinion comes through."""
    troubles = [
        Says({}, 429, {"Retry-After": "0"}),
        Says({}, 429),
        Says({}, 500),
        Says(cut="at once"),
        Says(cut="half way"),
        Says("<html>"),
    ]
    tries = itertools.count()
    with Server(lambda body, number: one_token(body) if next(tries) % 3 == 2 else troubles[number % 6]) as server:
        judging = judged(server, size=12, retries=30)
    assert preferences(judging) == pytest.approx([likes_ours(n) for n in range(12)], abs=1e-12)


def test_a_judge_that_goes_away_costs_nothing_already_paid_for(judged):
    with Server(lambda body, number: one_token(body) if number < 7 else Says({}, 500)) as server:
        words = r"gave no answer in 3 tries.*; 7 of 20 games are decided and kept, 13 are left: the same command"
        with pytest.raises(EndpointError, match=words):
            judged(server)
    assert not judged.folder.exists()  # no numbers of a part
    with Server(one_token) as again:
        judging = judged(again)
    assert len(again.asked) == 13
    assert judging.counts == {OK: 20}


def test_a_judge_that_never_was_there_is_said_to_be_so(judged):
    with Server(one_token) as server:
        pass
    with pytest.raises(EndpointError, match="0 of 2 games are decided and kept, 2 are left"):
        judged(server, size=2)


def test_a_wrong_key_ends_it_at_once(judged):
    with Server(lambda body, number: Says({"error": {"message": "bad key"}}, 401)) as server:
        with pytest.raises(EndpointError, match="refuses the key"):
            judged(server, concurrency=2)
        assert len(server.asked) <= 2


def test_another_model_than_asked_for_is_told(judged):
    def answer(body, number):
        says = one_token(body)
        says.body["model"] = "cheap-model"
        return says

    with Server(answer) as server:
        judging = judged(server)
    assert (judging.judge, judging.judge_says) == ("judge-1", "cheap-model")


def test_a_judge_without_an_endpoint_plays_the_same_part(tmp_path):
    class Longer:
        name, prompt, games, options = "longer", "none@1", 2, {}

        async def decide(self, question, ours, theirs, game, swapped):
            return Reading(float(len(ours) > len(theirs)))

    questions = bench(4)
    ours, theirs = answers(questions, "a long name"), answers(questions, "short")
    told = []
    cache = VerdictCache(tmp_path / "c")
    judging = judge_answers(questions, ours, theirs, Longer(), cache, tmp_path / "out", told.append)
    assert {each.preference for each in judging.verdicts} == {1.0}
    assert [progress.done for progress in told] == list(range(1, 9))
    assert not left_of(games_of(questions, ours, theirs, Longer()), cache)


def test_a_bench_has_its_judge():
    endpoint = Endpoint("http://x/v1", "j")
    assert isinstance(judge_of("alpacaeval", endpoint), AlpacaJudge)
    assert isinstance(judge_of("arena-hard", endpoint, max_tokens=None), ArenaJudge)
    assert isinstance(judge_of("prompts.txt", endpoint), PairJudge)
    assert judge_of("arena-hard", endpoint, max_tokens=9).max_tokens == 9
