"""Answers from a real server on loopback that keeps what it was asked and now and then misbehaves."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gapo.cli.main import app
from gapo.errors import InputError
from gapo.evaluate.answers import read_answers
from gapo.evaluate.questions import bench_named

KEY = "sk-very-secret-0123456789"


class Server:
    """`reply` makes status and body from a request; `asked` keeps every request's body."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.keys: set[str | None] = set()
        self.reply: Callable[[dict[str, Any]], tuple[int, Any]] = self.echo
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._send(200, {"data": []})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                server.asked.append(body)
                server.keys.add(self.headers["authorization"])
                self._send(*server.reply(body))

            def _send(self, status: int, content: Any) -> None:
                data = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"

    def echo(self, body: dict[str, Any], finish: str = "stop") -> tuple[int, Any]:
        text = f" {prompt(body)[::-1]} \n"
        choice = {"message": {"role": "assistant", "content": text}, "finish_reason": finish}
        return 200, {"model": "served-v2", "choices": [choice], "usage": {"completion_tokens": 5}}


def prompt(body: dict[str, Any]) -> str:
    return str(body["messages"][-1]["content"])


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.http.shutdown()
    thread.join()
    server.http.server_close()


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
    assert server.keys == {f"Bearer {KEY}"}
    assert not any(KEY in path.read_text() for path in Path().rglob("*") if path.is_file())


def test_drawn_answers_have_a_seed_of_their_own(server: Server) -> None:
    run(server, "--temperature", 0.7, "--top-p", 0.9)
    assert {(body["temperature"], body["top_p"]) for body in server.asked} == {(0.7, 0.9)}
    assert len({body["seed"] for body in server.asked}) == 20
    assert all(0 <= body["seed"] < 2**31 for body in server.asked)


def test_an_interrupted_run_goes_on_where_it_was(server: Server) -> None:
    def until_twelve(body: dict[str, Any]) -> tuple[int, Any]:
        return server.echo(body) if len(server.asked) <= 12 else (401, {"error": {"message": f"bad key {KEY}"}})

    server.reply = until_twelve
    with pytest.raises(InputError, match="refuses the key") as caught:
        run(server, "--concurrency", 1)
    assert KEY not in str(caught.value)
    assert not Path("a.jsonl").exists()
    before, server.reply, server.asked = server.asked[:12], server.echo, []
    assert "12 of 20 answers are there already" in run(server)
    assert len(server.asked) == 8
    assert not {*map(prompt, before)} & {*map(prompt, server.asked)}


def test_one_refused_question_does_not_hold_up_the_others(server: Server) -> None:
    def but_seven(body: dict[str, Any]) -> tuple[int, Any]:
        return (400, {"error": {"message": "too long"}}) if prompt(body) == "question 7" else server.echo(body)

    server.reply = but_seven
    with pytest.raises(InputError, match=r"1 of 20 questions got no answer \(the first, 7: .*too long"):
        run(server)
    server.reply, server.asked = server.echo, []
    run(server)
    assert [*map(prompt, server.asked)] == ["question 7"]


def test_a_server_that_refuses_everything_is_not_asked_for_long(server: Server) -> None:
    server.reply = lambda body: (400, {"error": {"message": "no"}})
    with pytest.raises(InputError, match="refuses the request"):
        run(server, "--concurrency", 1)
    assert len(server.asked) == 8


def test_cut_and_empty_answers_are_counted(server: Server) -> None:
    def some_cut(body: dict[str, Any]) -> tuple[int, Any]:
        if prompt(body) == "question 1":
            return 200, {"choices": [{"message": {"content": None}, "finish_reason": "content_filter"}]}
        return server.echo(body, "length" if prompt(body) in ("question 2", "question 5") else "stop")

    server.reply = some_cut
    said = run(server, "--max-new-tokens", 7)
    assert "2 are cut at 7 tokens" in said
    assert "1 are empty" in said
    notes = read_answers(Path("a.jsonl"), bench_named("q.txt")).notes
    assert notes["finish"] == {"content_filter": ["1"], "length": ["2", "5"]}


def test_no_server_is_one_sentence() -> None:
    words = ["generate", "m", "--bench", "q.txt", "--base-url", "http://127.0.0.1:9/v1"]
    with pytest.raises(InputError, match=r"127\.0\.0\.1:9/v1 cannot be reached"):
        CliRunner().invoke(app, words, catch_exceptions=False)
