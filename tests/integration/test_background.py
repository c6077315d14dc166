"""`gapo study --background`: a queue of runs that outlives its terminal, tells where it is, and ends when asked."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from typer.testing import CliRunner

from gapo.cli.main import app
from gapo.errors import InputError
from gapo.runs.alive import is_at_work
from launches import environment, search_path

STUDY = ["study", "probe", "--seeds", "1", "--jobs", "1"]


def gapo(folder, *arguments):
    """The command in a session of its own, as in a terminal that is closed afterwards."""
    told = {"PYTHONPATH": search_path(), "GAPO_CACHE": str(folder / "cache")}
    return subprocess.run(
        [sys.executable, "-m", "gapo", *STUDY, *arguments],
        env=environment(**told),
        cwd=folder,
        text=True,
        capture_output=True,
        start_new_session=True,
        check=False,
    )


def ended(process):
    """Whether it is gone, with all that it started, within a while."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if not psutil.pid_exists(process) or psutil.Process(process).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.2)
    return False


def test_a_queue_in_the_background_holds_its_runs_until_it_is_asked_to_leave(tmp_path):
    begun = gapo(tmp_path, "--background", "--json")
    assert begun.returncode == 0, begun.stderr
    found = json.loads(begun.stdout)
    process, log = found["process"], tmp_path / found["log"]
    try:
        assert found["left"] > 0
        assert os.getsid(process) == process  # no terminal whose end it would hear of
        runs = log.parent
        assert is_at_work(runs)
        for again in (gapo(tmp_path), gapo(tmp_path, "--background")):
            assert again.returncode == 2
            assert f"process {process} on" in again.stderr
            assert "is at work in runs/studies" in again.stderr.replace("\n", " ")
        children = psutil.Process(process).children(recursive=True)
    finally:
        os.kill(process, signal.SIGTERM)
    assert ended(process)
    assert not is_at_work(runs)
    assert "interrupted; finished runs are in runs/studies" in log.read_text()
    assert all(ended(child.pid) for child in children)


def test_what_cannot_begin_says_why_here_and_not_only_in_its_log(tmp_path, monkeypatch):
    from gapo.cli import background

    monkeypatch.setattr(sys, "argv", ["gapo", "study", "nothing-of-the-kind", background.OPTION])
    with pytest.raises(InputError, match="ended at once") as refusal:
        background.in_background(tmp_path, tmp_path / "queue.log")
    assert "nothing-of-the-kind" in str(refusal.value)
    assert "nothing-of-the-kind" in (tmp_path / "queue.log").read_text()


@pytest.mark.parametrize("other", ["--plan", "--from-runs"])
def test_nothing_is_trained_in_the_background_where_nothing_is_trained(tmp_path, other):
    refused = CliRunner().invoke(app, [*STUDY, "--background", other, "--runs", str(tmp_path / "runs")])
    assert isinstance(refused.exception, InputError)
    assert "leave one of them out" in str(refused.exception)
    assert not (tmp_path / "runs").exists()
