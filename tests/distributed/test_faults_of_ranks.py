"""Two processes share a run: asked to leave they stop after the same step; when one dies the other stops too."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import kills
import launches
from gapo.training.checkpoints import newest_whole

MANY = ["objective.name=simpo", "train.max_steps=20000", "train.save_steps=1000", "train.logging_steps=1000"]
A_MINUTE = 60.0


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return kills.make_place(tmp_path_factory.mktemp("ranks") / "place", *MANY)


def started(place, *more):
    words = (place.folder / "words.txt").open("w")
    command = [sys.executable, "-m", "gapo", "train", "mini", *place.arguments, "--processes", "2", *more]
    environment = launches.environment(PYTHONPATH=launches.search_path(), GAPO_CACHE=str(place.folder / "cache"))
    return subprocess.Popen(command, cwd=place.folder, env=environment, stdout=words, stderr=words)


def wait_for_step(place, process, step):
    until = time.monotonic() + 250
    while step_of(place) < step:
        assert process.poll() is None, place.words
        assert time.monotonic() < until
        time.sleep(0.02)


def step_of(place):
    path = place.folder / "OUT" / "steps.jsonl"
    lines = path.read_text().splitlines()[:-1] if path.is_file() else []
    return json.loads(lines[-1])["step"] if lines else 0


def ranks_of(process):
    """The processes that the launcher has started, in their order."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True, check=True)
    return sorted(int(pid) for pid in found.stdout.split())


def test_asked_to_leave_both_stop_after_the_same_step_and_a_dead_one_is_told_by_the_other(place):
    run = started(place)
    wait_for_step(place, run, 3)
    run.send_signal(signal.SIGTERM)  # to the launcher alone
    assert run.wait(120) == 143, place.words
    saved = newest_whole(place.folder / "OUT" / "checkpoints")
    assert f"gapo: saved {saved.relative_to(place.folder)}; go on with gapo train mini" in place.words
    assert "--resume --processes 2" in place.words
    assert place.words.count("asked to leave") == 1
    state = json.loads((saved / "trainer_state.json").read_text())
    assert saved.name == f"checkpoint-{state['global_step']}"
    assert len(list(saved.glob("rng_state_*.pth"))) == 2

    run = started(place, "--resume")
    wait_for_step(place, run, state["global_step"] + 3)
    assert f"going on from OUT/checkpoints/{saved.name}" in place.words
    first, second = ranks_of(run)
    os.kill(second, signal.SIGKILL)
    killed = time.monotonic()
    assert run.wait(A_MINUTE) == 2, place.words
    took = time.monotonic() - killed
    assert took < A_MINUTE
    (said,) = [line for line in place.words.splitlines() if line.startswith("gapo: ")]
    assert said.startswith(
        "gapo: process 2 of 2 was ended from outside (SIGKILL; out of memory, perhaps) and the others"
    )
    assert said.endswith("--resume")
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)
    assert newest_whole(place.folder / "OUT" / "checkpoints") == saved
    print(f"the other rank stopped {took:.1f} s after the kill")
