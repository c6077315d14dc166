"""Configurations that must train the same model, against one recorded run of each objective on the lab.

`PYTHONPATH=tests python tests/invariants/trajectory.py` records it anew, after a change of the method that is meant.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import trajectory
from configurations import ALL, CASES, CONFIGURATIONS
from trajectory import RECORDED, STEPS, apart, followed

import launches


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GAPO_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def recorded():
    return json.loads(RECORDED.read_text())


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The plain run of each objective on this machine."""
    return {objective: followed(tmp_path_factory.mktemp(objective), "plain", objective) for objective in ALL}


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    """What the configurations of two processes left behind."""
    folder = tmp_path_factory.mktemp("processes")
    launches.together([trajectory.__file__, str(folder)], 2)
    return folder


@pytest.mark.parametrize(("name", "objective"), CASES)
def test_every_configuration_follows_the_recorded_trajectory(name, objective, recorded, plain, tmp_path, request):
    how = CONFIGURATIONS[name]
    if how.processes > 1:
        folder = request.getfixturevalue("two_processes")
        found = json.loads((folder / name / f"{objective}.json").read_text())
    else:
        found = plain[objective] if name == "plain" else followed(tmp_path, name, objective)
    distance = apart(found, recorded[objective])
    print(json.dumps({"class": how.of, "configuration": name, "objective": objective, "apart": distance}))
    assert distance <= how.tolerance
    if how.same_bits:
        assert found == plain[objective]


def test_the_recorded_run_has_moved_far_enough_to_tell_curves_apart(recorded):
    """Weights move, and from step to step the pairs of an epoch come back with other margins."""
    for objective, found in recorded.items():
        first, second = (found["pair_id"][i : i + 24] for i in (0, 24))
        assert sorted(first) == sorted(second), objective
        margins = [dict(zip(ids, found["pairs"]["margin"][i:], strict=False)) for i, ids in ((0, first), (24, second))]
        assert max(abs(margins[0][name] - margins[1][name]) for name in first) > 0.01
        assert len(found["steps"]["loss"]) == STEPS


def test_both_processes_stop_at_a_pair_that_one_of_them_has(two_processes):
    """Its log-probs at step 2; its gradient at step 1, where the other process has a direction and this one none."""
    said = [json.loads((two_processes / f"said-{rank}.json").read_text()) for rank in (0, 1)]
    assert said[0] == said[1]
    logps, gradient = said[0]
    assert (logps["step"], logps["pairs"]) == (2, [logps["guilty"]])
    assert (gradient["step"], gradient["pairs"]) == (1, [])
