"""Where a run folder stands, and which folder a run gets."""

import json
from copy import deepcopy
from pathlib import Path

import pytest
import yaml

from gapo.errors import InputError
from gapo.runs.environment import environment
from gapo.runs.recipe import read_recipe, runs_of
from gapo.runs.resume import folder_for, result_to_tell, standing_of


@pytest.fixture
def recipe(tmp_path):
    return read_recipe("mini", [f"train.output_dir={tmp_path / 'mini'}"])


def begin(one, *, finished=False):
    folder = Path(one["train"]["output_dir"])
    folder.mkdir(parents=True)
    (folder / "recipe.yaml").write_text(yaml.safe_dump(one))
    if finished:
        (folder / "evals.json").write_text('{"steps": 3}')
    return folder


def chosen(recipe, *, resume=False, given=False, named=False):
    folders = [Path(one["train"]["output_dir"]) for one in runs_of(recipe)]
    return folder_for(recipe, folders, resume=resume, given=given, named=named).name


def test_a_new_run_takes_a_free_folder_and_stands_next_to_a_finished_one(recipe):
    assert chosen(recipe) == "mini"
    for one in runs_of(recipe):
        begin(one, finished=True)
    assert chosen(recipe) == "mini-2"
    assert chosen(recipe, resume=True) == "mini"  # its result is told again
    with pytest.raises(InputError, match="mini is not empty; choose another"):
        chosen(recipe, given=True, named=True)


def test_an_unfinished_run_is_not_passed_over(recipe, tmp_path):
    simpo, gapo = runs_of(recipe)
    begin(simpo, finished=True)
    with pytest.raises(InputError, match="mini holds a run that is not finished; go on with --resume"):
        chosen(recipe)
    begin(gapo, finished=True)
    (tmp_path / "mini").rename(tmp_path / "mini-2")
    for one in (simpo, gapo):
        begin(one, finished=True)
    assert chosen(recipe) == "mini-3"
    (tmp_path / "mini-2" / "gapo" / "evals.json").unlink()
    with pytest.raises(InputError, match="mini-2 holds a run that is not finished"):
        chosen(recipe)
    assert chosen(recipe, resume=True) == "mini-2"
    assert chosen(recipe, resume=True, named=True) == "mini"


def test_a_kill_before_the_first_file_leaves_a_free_folder(recipe, tmp_path):
    (tmp_path / "mini" / "simpo").mkdir(parents=True)
    (tmp_path / "mini" / "simpo" / ".recipe.yaml.x1.part").write_text("model:\n  na")
    assert chosen(recipe) == chosen(recipe, resume=True) == "mini"


def test_a_folder_of_something_else_is_not_resumed(recipe, tmp_path):
    (tmp_path / "mini").mkdir()
    (tmp_path / "mini" / "precious.txt").write_text("mine")
    with pytest.raises(InputError, match="mini holds no run to resume"):
        chosen(recipe, resume=True)


def test_a_finished_run_is_told_again_and_a_longer_one_goes_on(recipe):
    one = runs_of(recipe)[0]
    folder, said = begin(one, finished=True), []
    assert result_to_tell(standing_of(folder), one, said.append) == {"steps": 3}
    assert said == [f"{folder} is finished; this is its result"]
    longer = deepcopy(one)
    longer["train"]["num_train_epochs"] = 2
    assert result_to_tell(standing_of(folder), longer, said.append) is None


def test_the_recipe_must_be_the_one_the_run_began_with(recipe):
    one = runs_of(recipe)[0]
    folder = begin(one)
    other = deepcopy(one)
    other["noise"]["rate"] = 0.4
    other["train"]["save_steps"] = 7  # how often it saves is free
    with pytest.raises(InputError, match=r"was begun with other values of noise.rate \(0.2, now 0.4\); resume it"):
        result_to_tell(standing_of(folder), other, print)


def test_another_machine_is_said(recipe):
    one = runs_of(recipe)[0]
    folder, said = begin(one), []
    before = environment(["gapo"], 0)
    (folder / "environment.json").write_text(json.dumps(before))
    assert result_to_tell(standing_of(folder), one, said.append) is None
    assert said == []
    before["threads"] += 1
    before["packages"]["torch"] = "1.0"
    (folder / "environment.json").write_text(json.dumps(before))
    result_to_tell(standing_of(folder), one, said.append)
    assert f"threads {before['threads']} is now {before['threads'] - 1}, torch 1.0 is now" in said[0]
    assert "not bit for bit" in said[0]


def test_what_a_kill_cut_short_counts_as_not_there(recipe):
    folder = begin(runs_of(recipe)[0])
    (folder / "evals.json").write_text('{"steps": 3')
    (folder / "start.json").write_text("")
    run = standing_of(folder)
    assert run.recipe is not None
    assert run.result is None
    assert run.start is None
