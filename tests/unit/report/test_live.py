"""A run that is watched: where it stands, and a server that shows it and nothing else."""

from __future__ import annotations

import json
import os
import time
from base64 import b64encode
from hashlib import sha256

import pytest

from asked import ask, served
from gapo.errors import InputError
from gapo.report.live import LiveServer
from gapo.report.live_page import LIVE_STYLE, SCRIPT
from gapo.report.markup import tag
from gapo.report.standing import DIED, ENDED, EVALUATING, SILENT, STARTING, TRAINING, Watcher, last_line, total_steps
from gapo.report.style import STYLE
from gapo.runs.alive import at_work, is_at_work


@pytest.fixture(autouse=True)
def quick(monkeypatch) -> None:
    monkeypatch.setattr("gapo.report.elements.inline_svg", lambda drawn, *, key, label: tag("svg", id=key))


def begun(folder, steps: int = 40):
    """A run that has no result yet, of 60 steps."""
    (folder / "evals.json").unlink()
    lines = (folder / "steps.jsonl").read_text().splitlines(keepends=True)
    (folder / "steps.jsonl").write_text("".join(lines[:steps]))
    recipe = (folder / "recipe.yaml").read_text().replace("steps: 100", "max_steps: 60")
    (folder / "recipe.yaml").write_text(recipe)
    return folder


def older(folder, seconds: float) -> None:
    for path in folder.iterdir():
        os.utime(path, (time.time() - seconds,) * 2)


def look(folder):
    import yaml

    return Watcher(folder, yaml.safe_load((folder / "recipe.yaml").read_text())).look()


def test_a_run_is_seen_to_start_train_end_and_die(make_run):
    folder = begun(make_run())
    with at_work(folder):
        assert is_at_work(folder) is True
        older(folder, 100)  # silent, but its process is there
        assert look(folder).state == TRAINING
        assert look(folder).as_json()["steps"] == "step 40 of 60"
        (folder / "steps.jsonl").write_text("")
        assert look(folder).state == STARTING
        (folder / "steps.jsonl").write_text('{"step": 60, "epoch": 1.0}\n')
        assert look(folder).state == EVALUATING
    assert is_at_work(folder) is False
    assert look(folder).state == EVALUATING  # something was written a moment ago
    older(folder, 100)
    assert look(folder).state == DIED
    assert "--resume" in look(folder).words
    (folder / "evals.json").write_text('{"comparison": {}}')  # of gapo eval, not of the run
    older(folder, 100)
    assert look(folder).state == DIED
    (folder / "evals.json").write_text('{"after": {}}')
    assert look(folder).state == ENDED


def test_where_locks_are_not_known_a_long_silence_is_told(make_run, monkeypatch):
    folder = begun(make_run())
    monkeypatch.setattr("gapo.runs.alive.fcntl", None)
    assert is_at_work(folder) is None
    assert look(folder).state == TRAINING
    older(folder, 600)
    assert look(folder).state == SILENT
    assert "10\u00a0min" in look(folder).words


def test_the_time_left_follows_the_steps_that_were_seen(make_run, monkeypatch):
    folder = begun(make_run())
    watcher, clock = Watcher(folder, {"train": {"max_steps": 60}}), [1000.0]
    monkeypatch.setattr("gapo.report.standing.time.monotonic", lambda: clock[0])
    watcher.look()
    (folder / "steps.jsonl").write_text('{"step": 50}\n')
    clock[0] += 20
    assert watcher.look().seconds_left == pytest.approx(20.0)  # ten steps in 20 s, ten to go
    (folder / "steps.jsonl").write_text('{"step": 30}\n')
    assert watcher.look().seconds_left is None  # back at a checkpoint: nothing is known of its speed


def test_a_clock_that_is_set_back_hides_no_death_and_gives_no_negative_time(make_run, monkeypatch):
    folder = begun(make_run())
    watcher, wall, steady = Watcher(folder, {"train": {"max_steps": 60}}), [time.time()], [1000.0]
    monkeypatch.setattr("gapo.report.standing.time.time", lambda: wall[0])
    monkeypatch.setattr("gapo.report.standing.time.monotonic", lambda: steady[0])
    watcher.look()
    wall[0] -= 3600
    steady[0] += 20
    (folder / "steps.jsonl").write_text('{"step": 50}\n')
    now = watcher.look()
    assert (now.seconds_left, now.silence) == (pytest.approx(20.0), 0.0)
    steady[0] += 100
    now = watcher.look()
    assert (now.state, now.silence) == (DIED, 100.0)


@pytest.mark.parametrize(
    ("train", "last", "steps"),
    [
        ({"max_steps": 7, "num_train_epochs": 2}, {"step": 1, "epoch": 0.1}, 7),
        ({"max_steps": -1, "num_train_epochs": 2}, {"step": 3, "epoch": 0.06}, 100),
        ({}, {"step": 10, "epoch": 1.0}, 30),
        ({}, {}, None),
        (None, {"step": 10}, None),
    ],
)
def test_the_number_of_steps_is_asked_for_or_follows_from_the_epochs(train, last, steps):
    assert total_steps({"train": train}, last) == steps


def test_a_line_that_is_being_written_is_not_read(tmp_path):
    path = tmp_path / "steps.jsonl"
    assert last_line(path) == {}
    path.write_text('{"step": 1}\n{"step": 2, "lo')
    assert last_line(path) == {"step": 1}
    path.write_text('{"step": 1}\n{"step": 2}')  # whole to look at, but its end may be missing: {"step": 2}5...
    assert last_line(path) == {"step": 1}


def test_the_page_is_served_and_grows_with_the_run(make_run, monkeypatch):
    monkeypatch.setattr("gapo.report.live.BETWEEN", 0.0)
    monkeypatch.setattr("gapo.report.live.TIMES", 0.0)
    folder = begun(make_run("<b>run"))
    with served(folder) as server, at_work(folder):
        at = f"/{server.token}/"
        status, headers, content = ask(server, at)
        assert status == 200
        assert b"<b>run" not in content
        assert b"&lt;b&gt;run" in content
        policy = headers["Content-Security-Policy"]
        for text in (STYLE + LIVE_STYLE, SCRIPT):
            assert f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" in policy
            assert text.encode() in content
        assert "default-src 'none'" in policy
        assert "connect-src 'self'" in policy
        first = json.loads(ask(server, f"{at}status")[2])
        assert (first["step"], first["total"], first["state"]) == (40, 60, "training")
        status, headers, content = ask(server, f"{at}page")
        assert headers["ETag"] == first["page"]
        assert b"40 steps recorded" in content
        assert b"<style" not in content
        with open(folder / "steps.jsonl", "a") as file:
            file.write('{"step": 41, "loss": 0.5}\n{"step": 42, "lo')
        second = json.loads(ask(server, f"{at}status")[2])
        assert second["step"] == 41
        assert second["page"] != first["page"]
        content = ask(server, f"{at}page")[2]
        assert b"41 steps recorded" in content
        assert b"cut off" not in content  # it is being written
        assert ask(server, f"{at}report")[2].startswith(b"<!doctype html>")


def test_a_page_is_not_drawn_more_often_than_it_may_be(make_run, monkeypatch):
    monkeypatch.setattr("gapo.report.live.BETWEEN", 1000.0)
    folder = begun(make_run())
    with served(folder) as server, at_work(folder):
        at = f"/{server.token}/"
        drawn = ask(server, f"{at}page")[1]["ETag"]
        with open(folder / "steps.jsonl", "a") as file:
            file.write('{"step": 41}\n')
        assert json.loads(ask(server, f"{at}status")[2])["page"] == drawn
        assert ask(server, f"{at}page")[1]["ETag"] == drawn
        (folder / "evals.json").write_text('{"after": {}}')
        assert ask(server, f"{at}page")[1]["ETag"] != drawn  # the end is not kept waiting


def test_only_loopback_names_with_the_token_are_answered(make_run):
    with served(make_run()) as server:
        at = f"/{server.token}/"
        assert server.server_address[0] == "127.0.0.1"
        assert ask(server, f"{at}status", host=f"localhost:{server.server_port}")[0] == 200
        for host in ("evil.example", f"evil.example:{server.server_port}", "127.0.0.1", "127.0.0.1:1", ""):
            assert ask(server, f"{at}status", host=host)[0] == 403
        names = ("recipe.yaml", "../recipe.yaml", "..%2frecipe.yaml", "/status", "status?x", "status/", "evals.json")
        paths = ["/", "/status", "/wrong/status", at[:-1], f"http://127.0.0.1{at}", *(at + name for name in names)]
        for path in paths:
            found = ask(server, path)
            assert found[0] in (403, 404), path
            assert b"objective" not in found[2]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "BREW"])
def test_only_get_is_answered(make_run, method):
    with served(make_run(steps=2)) as server:
        status, headers, content = ask(server, f"/{server.token}/", method, body=b"x" * 10)
        assert status == 405
        assert headers["Allow"] == "GET"
        assert b"<html" not in content


def test_tokens_differ(make_run):
    folder = make_run(steps=2)
    with LiveServer(folder) as one, LiveServer(folder) as other:
        assert one.token != other.token
        assert len(one.token) >= 20


def test_a_port_that_is_taken_and_a_folder_that_is_no_run_are_one_sentence(make_run, tmp_path):
    folder = make_run(steps=2)
    with LiveServer(folder) as server, pytest.raises(InputError, match="choose another --port"):
        LiveServer(folder, server.server_port)
    with pytest.raises(InputError, match="is not a run"):
        LiveServer(tmp_path)
    with pytest.raises(InputError, match="it holds the runs gapo-20; name one"):
        LiveServer(folder.parent)
