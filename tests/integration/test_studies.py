"""A study of two short runs, for real: trained in other processes, resumed, seen, drawn; and the command."""

import json
import os
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from gapo.cli.main import app
from gapo.errors import InputError
from gapo.pairs.formats import load_pairs
from gapo.report.study_files import disagreements, write_study
from gapo.studies.about import about_study
from gapo.studies.catalogue import CATALOGUE
from gapo.studies.conduct import carry_out_all, gathered
from gapo.studies.grid import Cell
from gapo.studies.outcome import outcome
from gapo.studies.scale import MINI
from gapo.studies.store import Store
from gapo.studies.tasks import Setting, tasks_of
from gapo.studies.train import carry_out
from gapo.studies.workers import done_in_turn, pool
from study_of_tests import SCALE, TINY, TRAINED_ONLY


def test_a_study_is_trained_resumed_and_drawn(tmp_path):
    setting = Setting(SCALE, Store(tmp_path / "runs"), {})
    told = []
    assert carry_out_all([TRAINED_ONLY], setting, told.append, side_by_side=2) == (2, 2)
    assert sorted(ended.left for ended in told) == [0, 1]
    rows = gathered(TRAINED_ONLY, setting, [])
    assert [(row["what"], row["steps"]) for row in rows] == [("start", 0), ("trained", 2)]
    run = setting.store.run(rows[1]["run"])
    assert run.pairs.num_rows == 8
    assert (run.model / "config.json").is_file()
    assert json.loads((run.folder / "environment.json").read_text())["recipe"] == rows[1]["run"]
    page = write_study(TRAINED_ONLY, rows, about_study(TRAINED_ONLY, setting), tmp_path / "out")
    assert disagreements(TRAINED_ONLY, page.parent) == []

    before = (run.folder / "evals.json").stat().st_mtime_ns
    assert carry_out_all([TRAINED_ONLY], setting, told.append) == (0, 1)  # finished: nothing to do
    other = replace(TRAINED_ONLY, observe=outcome, grid=lambda scale: TRAINED_ONLY.grid(scale)[1:])
    assert carry_out_all([other], setting, told.append) == (1, 1)  # another question to the same run
    assert (run.folder / "evals.json").stat().st_mtime_ns == before
    assert gathered(other, setting, [])[0]["accuracy"] == run.evals["after"]["accuracy"]


def test_a_run_that_was_cut_short_is_run_again_and_a_later_one_finds_it(tmp_path):
    setting = Setting(SCALE, Store(tmp_path / "runs"), {})
    start, gapo, later = tasks_of([TINY], setting)
    assert (start.trained, gapo.after, later.after) == (False, None, gapo.address)
    carry_out(gapo, setting.store.root)
    folder = setting.store.root / gapo.address
    accuracy = setting.store.run(gapo.address).evals["after"]["accuracy"]
    (folder / "evals.json").unlink()
    pairs = load_pairs("lab")[:4].rows()
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in pairs))
    carry_out(gapo, setting.store.root)
    assert setting.store.run(gapo.address).evals["after"]["accuracy"] == accuracy
    carry_out(later, setting.store.root)
    assert setting.store.run(later.address).pairs.num_rows == 4


def test_a_run_that_cannot_go_on_is_marked_and_the_study_goes_on(tmp_path):
    changes = {"train.learning_rate": 1e30, "train.max_grad_norm": 0.0}
    study = replace(TINY, grid=lambda scale: [Cell("simpo", changes, {"what": "wild"})])
    setting = Setting(replace(SCALE, changes={**SCALE.changes, "data.limit": 16}), Store(tmp_path), {})
    carry_out_all([study], setting, lambda ended: None)
    (row,) = gathered(study, setting, [])
    assert row["what"] == "wild"
    assert "step" in row["stopped"]


def test_an_error_of_a_run_ends_the_study_with_its_sentence(tmp_path):
    study = replace(TINY, grid=lambda scale: [Cell("simpo", {"data.train": str(tmp_path / "none.jsonl")})])
    with pytest.raises(InputError, match=r"none\.jsonl"):
        carry_out_all([study], Setting(SCALE, Store(tmp_path), {}), lambda ended: None)


def test_processes_have_the_threads_they_were_given_and_leave_the_environment_alone(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    with pool(1, threads=3) as workers:
        assert workers.submit(_threads).result() == ("3", 3)
    assert os.environ["OMP_NUM_THREADS"] == "7"


def _threads():
    import torch

    return os.environ["OMP_NUM_THREADS"], torch.get_num_threads()


def test_a_timed_run_has_a_process_of_its_own_and_knows_its_peak(tmp_path):
    cells = [Cell("simpo", {}, {"what": f"{i}"}, timed=True) for i in range(2)]
    study = replace(TINY, observe=outcome, grid=lambda scale: cells)
    tasks = tasks_of([study], Setting(SCALE, Store(tmp_path), {}))
    assert len(tasks) == 1  # the same recipe is the same run
    ((task, spent),) = done_in_turn(tasks, tmp_path, 2)
    assert task.address.endswith("-timed")
    assert Store(tmp_path).run(task.address).facts["peak_bytes"] > 1e8
    assert spent[task.kind] > 0
    assert spent.keys() == {task.kind, task.look(outcome)}


def invoke(*arguments):
    return CliRunner().invoke(app, ["study", *map(str, arguments)])


def test_the_command_lists_plans_and_answers(tmp_path):
    listed = invoke("list")
    assert "noise        How does accuracy" in listed.output
    planned = invoke("all", "--plan", "--seeds", 1, "--runs", tmp_path, "--out", tmp_path)
    assert "noise        37 runs, 37 to train" in planned.output
    assert "at a time" in planned.output
    assert "no method is tuned" in planned.output
    assert not list(tmp_path.iterdir())  # a plan writes nothing
    wrong = invoke("noize", "--plan")
    assert isinstance(wrong.exception, InputError)
    missing = invoke("noise", "--from-runs", "--seeds", 1, "--runs", tmp_path, "--out", tmp_path)
    assert isinstance(missing.exception, InputError)
    assert "without --from-runs" in str(missing.exception)


def test_the_command_draws_a_finished_study(tmp_path):
    setting, noise = Setting(MINI, Store(tmp_path / "runs"), {}, 1), CATALOGUE["noise"]
    for number, task in enumerate(tasks_of([noise], setting)):
        setting.store.keep(task.address, noise.observe, [{"accuracy": 0.5 + number / 1000}])
    done = invoke("noise", "--from-runs", "--seeds", 1, "--runs", tmp_path / "runs", "--out", tmp_path / "results")
    assert done.exit_code == 0, done.output
    assert disagreements(noise, tmp_path / "results" / "noise") == []
    assert "noise/README.md" in (tmp_path / "results" / "README.md").read_text()
