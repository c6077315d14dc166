"""Answers from a real server on loopback that keeps what it was asked and now and then misbehaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gapo.cli.main import app
from gapo.errors import InputError
from gapo.evaluate.answers import read_answers
from gapo.evaluate.questions import bench_named
from loopback import Says, Server, completion

KEY = "sk-very-secret-0123456789"


def prompt(body: dict[str, Any]) -> str:
    return str(body["messages"][-1]["content"])


def echo(body: dict[str, Any], number: int = 0, finish: str = "stop") -> Says:
    return Says(completion(f" {prompt(body)[::-1]} \n", finish=finish, model="served-v2"))


def refused(message: str, status: int = 400) -> Says:
    return Says({"error": {"message": message}}, status=status)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(echo) as server:
        yield server


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    Path("q.txt").write_text("".join(f"question {i}\n" for i in range(20)))


def run(server: Server, *words: object) -> str:
    common = ("org/served", "--bench", "q.txt", "--out", "a.jsonl", "--base-url", server.url)
    result = CliRunner().invoke(app, ["generate", *common, *map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_a_server_answers_every_question_once(server: Server) -> None:
    run(server, "--max-new-tokens", 33, "--system", "Be short.")
    assert sorted(map(prompt, server.asked)) == sorted(f"question {i}" for i in range(20))
    body = next(each for each in server.asked if prompt(each) == "question 3")
    assert body == {
        "model": "org/served",
        "messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "question 3"}],
        "max_tokens": 33,
        "temperature": 0.0,
    }
    answers = read_answers(Path("a.jsonl"), bench_named("q.txt"))
    assert answers.model == "served"
    assert answers.by_id == {str(i): f"question {i}"[::-1] for i in range(20)}
    assert answers.notes["server_says"] == "served-v2"
    assert set(server.keys) == {f"Bearer {KEY}"}
    assert not any(KEY in path.read_text() for path in Path().rglob("*") if path.is_file())


def test_drawn_answers_have_a_seed_of_their_own(server: Server) -> None:
    run(server, "--temperature", 0.7, "--top-p", 0.9)
    assert {(body["temperature"], body["top_p"]) for body in server.asked} == {(0.7, 0.9)}
    assert len({body["seed"] for body in server.asked}) == 20
    assert all(0 <= body["seed"] < 2**31 for body in server.asked)


def test_an_interrupted_run_goes_on_where_it_was(server: Server) -> None:
    server.answer = lambda body, number: echo(body) if number < 12 else refused(f"bad key {KEY}", 401)
    with pytest.raises(InputError, match="refuses the key") as caught:
        run(server, "--concurrency", 1)
    assert KEY not in str(caught.value)
    assert not Path("a.jsonl").exists()
    before, server.answer, server.asked = server.asked[:12], echo, []
    assert "12 of 20 answers are there already" in run(server)
    assert len(server.asked) == 8
    assert not {*map(prompt, before)} & {*map(prompt, server.asked)}


def test_a_busy_server_is_asked_again(server: Server) -> None:
    busy = Says({"error": {"message": "slow down"}}, status=429, headers={"Retry-After": "0"})
    server.answer = lambda body, number: busy if number % 3 == 0 else echo(body)
    run(server)
    assert len(server.asked) > 20
    assert len(read_answers(Path("a.jsonl"), bench_named("q.txt")).by_id) == 20


def test_one_refused_question_does_not_hold_up_the_others(server: Server) -> None:
    server.answer = lambda body, number: refused("too long") if prompt(body) == "question 7" else echo(body)
    with pytest.raises(InputError, match=r"1 of 20 questions got no answer \(the first, 7: .*too long"):
        run(server)
    server.answer, server.asked = echo, []
    run(server)
    assert [*map(prompt, server.asked)] == ["question 7"]


def test_a_server_that_refuses_everything_is_not_asked_for_long(server: Server) -> None:
    server.answer = lambda body, number: refused("no")
    with pytest.raises(InputError, match="refuses the request"):
        run(server, "--concurrency", 1)
    assert len(server.asked) == 8


def test_cut_and_empty_answers_are_counted(server: Server) -> None:
    def some_cut(body: dict[str, Any], number: int) -> Says:
        if prompt(body) == "question 1":
            return Says({"choices": [{"message": {"content": None}, "finish_reason": "content_filter"}]})
        return echo(body, finish="length" if prompt(body) in ("question 2", "question 5") else "stop")

    server.answer = some_cut
    said = run(server, "--max-new-tokens", 7)
    assert "2 are cut at 7 tokens" in said
    assert "1 are empty" in said
    notes = read_answers(Path("a.jsonl"), bench_named("q.txt")).notes
    assert notes["finish"] == {"content_filter": ["1"], "length": ["2", "5"]}


def test_no_server_is_one_sentence() -> None:
    words = ["generate", "m", "--bench", "q.txt", "--base-url", "http://127.0.0.1:9/v1"]
    with pytest.raises(InputError, match=r"127\.0\.0\.1:9/v1 cannot be reached"):
        CliRunner().invoke(app, words, catch_exceptions=False)
