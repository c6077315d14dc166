"""Commands with other processes, or with long work: asked to leave, or with a worker gone, they say what is kept."""

from __future__ import annotations

import os
import re
import signal
import threading
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner

import dying
from gapo.cli import launch
from gapo.cli.launch import LAUNCHER, SAID, another_is_gone, say_once
from gapo.cli.leaving import may_leave
from gapo.cli.main import app
from gapo.errors import InputError, TrainingStopped
from gapo.runs import alive
from gapo.runs.alive import LOCK, at_work
from gapo.signals import heard
from gapo.studies import workers
from gapo.studies.store import Store
from gapo.studies.tasks import Setting, tasks_of
from gapo.studies.train import carry_out
from study_of_tests import SCALE, TRAINED_ONLY


def leave(number):
    """As if somebody had sent us a signal while we were at work."""
    signal.raise_signal(number)
    pytest.fail("nobody heard it")


@pytest.fixture
def hears_interrupts():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs do not
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_command_that_is_asked_to_leave_says_what_is_kept(number, code, tmp_path, monkeypatch, hears_interrupts):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "a question"}\n')
    monkeypatch.setattr("gapo.studies.conduct.plan", lambda *_: SimpleNamespace(left=3))
    monkeypatch.setattr("gapo.studies.conduct.carry_out_all", lambda *_: leave(number))
    monkeypatch.setattr("gapo.evaluate.generation.generate_answers", lambda *_: leave(number))
    server = ["--base-url", "http://127.0.0.1:1/v1"]
    words = {
        "interrupted; finished runs are in runs/studies, the same command goes on": ["study", "tuning"],
        "interrupted; what was answered is kept": ["generate", "m", "--bench", "prompts.jsonl", *server],
    }
    before = signal.getsignal(signal.SIGTERM)
    for said, command in words.items():
        done = CliRunner().invoke(app, command)
        assert (done.exit_code, said in done.output) == (code, True), done.output
    assert signal.getsignal(signal.SIGTERM) is before


def test_in_another_thread_nothing_is_heard_and_nothing_breaks():
    found = []

    def work():
        with may_leave(lambda _: "never"):
            found.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [before]


def test_what_the_user_ignores_stays_ignored():
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with may_leave(lambda _: "never"), heard(pytest.fail, signal.SIGTERM):
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_the_line_comes_with_the_exit_code(capsys):
    with pytest.raises(typer.Exit) as left, may_leave(lambda asked: f"left for {asked.number}"):
        signal.raise_signal(signal.SIGTERM)
    assert left.value.exit_code == 143
    assert capsys.readouterr().err == "\ngapo: left for 15\n"


def test_a_killed_worker_of_a_study_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "carry_out", dying.die)
    tasks = tasks_of([TRAINED_ONLY], Setting(SCALE, Store(tmp_path), {}))
    with pytest.raises(TrainingStopped, match="a process of the study was ended from outside") as stopped:
        list(workers.done_in_turn(tasks, tmp_path, 1))
    assert str(stopped.value).endswith(f"finished runs are in {tmp_path}, and the same command goes on")


def test_a_run_of_a_study_that_another_study_trains_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(alive, "PATIENCE", 0.2)
    task = next(task for task in tasks_of([TRAINED_ONLY], Setting(SCALE, Store(tmp_path), {})) if task.trained)
    held = re.escape(f"process {os.getpid()} on ") + r"\S+ is at work in " + re.escape(str(tmp_path / task.address))
    with at_work(tmp_path / task.address), pytest.raises(InputError, match=held):
        carry_out(task, tmp_path)
    assert not (tmp_path / task.address / LOCK).exists()


def test_a_rank_that_lost_another_says_so(monkeypatch):
    error = RuntimeError("[../gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:5831")
    monkeypatch.delenv(LAUNCHER, raising=False)
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert another_is_gone(error) is None
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "another process of this run has ended" in another_is_gone(error)
    assert another_is_gone(RuntimeError("shapes do not match")) is None


def test_what_two_ranks_have_to_say_is_said_once_whichever_comes_first(tmp_path, monkeypatch, capsys):
    """The first rank may be late on a busy machine: the second has lost patience and spoken."""
    monkeypatch.setattr(launch, "PATIENCE", 0.0)
    monkeypatch.setenv(SAID, str(tmp_path))
    for rank, words in (("1", "gapo: no column"), ("0", "gapo: no column"), ("0", "gapo: no disk")):
        monkeypatch.setenv("RANK", rank)
        say_once(words)
    assert capsys.readouterr().err.splitlines() == ["gapo: no column", "gapo: no disk"]


def test_ranks_that_cannot_know_of_each_other_speak(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(launch, "PATIENCE", 0.0)
    for folder in (None, str(tmp_path / "gone")):
        monkeypatch.delenv(SAID, raising=False)
        if folder is not None:
            monkeypatch.setenv(SAID, folder)
        say_once("gapo: no column")
    assert capsys.readouterr().err.splitlines() == ["gapo: no column"] * 2
