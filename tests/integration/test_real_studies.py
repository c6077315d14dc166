"""The studies of a real model with the lab's in its place: every observer on a run, the queue, and what it leaves."""

import json
from dataclasses import replace

import pytest
import yaml
from typer.testing import CliRunner

from gapo.cli.main import app
from gapo.errors import InputError
from gapo.pairs.formats import load_pairs
from gapo.report.publish import Results
from gapo.report.study_files import ABOUT, CARD, PAGE, ROWS, disagreements
from gapo.studies import catalogue, real_looks, train
from gapo.studies.catalogue import BY_NAME, REAL_STUDIES
from gapo.studies.planned import NOT_YET
from gapo.studies.rows import read_rows
from gapo.studies.scale import SMOLLM2
from gapo.studies.store import Store
from gapo.studies.tasks import not_published, tasks_of, to_do
from gapo.studies.train import carry_out
from gapo.training.trainer import PreferenceTrainer

STEPS, PAIRS = 2, 16


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    """A recipe of the lab in the place of SmolLM2's; pairs have subsets, and llmbar is a file of one's own."""
    folder = tmp_path / "data"
    rows = [{**row, "subset": ("agree", "disagree")[k % 3 == 0]} for k, row in enumerate(load_pairs("lab")[:64].rows())]
    for name in ("pairs", "llmbar"):
        (folder / name).mkdir(parents=True)
        for split in ("train", "test"):
            part = rows[:32] if split == "train" else rows[32:]
            (folder / name / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    monkeypatch.setenv("GAPO_DATA", str(folder))
    monkeypatch.setattr(real_looks, "TASKS", {})
    pairs = folder / "pairs"
    path = tmp_path / "tiny.yaml"
    data = {"train": str(pairs / "train.jsonl"), "eval": str(pairs / "test.jsonl"), "longest": 5000, "max_length": 512}
    train = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "learning_rate": 1e-4}
    train |= {"lr_scheduler_type": "cosine", "warmup_steps": 0.1}
    anchor = {"engine": "bank", "bank_dtype": "bf16"}
    path.write_text(yaml.safe_dump({"model": {"name": "lab"}, "data": data, "anchor": anchor, "train": train}))
    return str(path)


def small(study, recipe, cells=None):
    """The study with few cells, its runs as short as can be."""
    few = {"train.max_steps": STEPS}

    def grid(scale):
        chosen = [cell for cell in study.grid(scale) if cells is None or cell.method in cells]
        chosen = [cell for cell in chosen if cell.labels.get("data") != "courtesy"]  # here the same pairs as polite
        return [replace(cell, recipe=recipe, changes={**cell.changes, **few}) for cell in chosen]

    return replace(study, grid=grid, seeds=1)


def results_in(tmp_path):
    return Results(tmp_path / "results", Store(tmp_path / "runs"), SMOLLM2)


def done(study, results, count=None):
    """Carry out the first tasks in this process, and publish."""
    setting = results.setting([study])
    for task in to_do(not_published([study], setting), setting.store)[:count]:
        carry_out(task, setting.store.root)
    results.write(study, setting)
    return read_rows(results.folder / study.name / ROWS)


def test_noise_is_seen_in_accuracy_drift_and_weights_and_no_words_of_others_are_kept(tmp_path, recipe):
    study, results = small(BY_NAME["real/noise"], recipe, ("gapo", "simpo")), results_in(tmp_path)
    rows = done(study, results, 2)
    assert [row["method"] for row in rows] == ["gapo", "simpo"]
    assert all(row["what"] == "outcome" and 0 <= row["accuracy"] <= 1 and row["kl"] > 0 for row in rows)
    assert all(row["clean_weight"] > 0 and 0 <= row["weight_area"] <= 1 for row in rows)
    page = (results.folder / "real" / "noise" / PAGE).read_text()
    assert NOT_YET in page
    assert f"Not run yet: {len(study.grid(SMOLLM2)) - 2} of {len(study.grid(SMOLLM2))} runs" in page
    assert disagreements(study, results.folder / study.name) == []
    assert not list(results.store.root.rglob("*.safetensors"))
    card = (results.folder / "real" / "noise" / CARD).read_text()
    assert "trained with gapo" in card
    assert str(tmp_path) not in card
    assert CARD in (results.folder / "real" / PAGE).read_text()


def test_a_long_run_that_was_cut_short_goes_on_where_it_was_to_the_same_numbers(tmp_path, recipe, monkeypatch):
    study = small(BY_NAME["real/noise"], recipe, ("gapo",))
    taken, steps = [], PreferenceTrainer.get_batch_samples
    monkeypatch.setattr(train, "SAVED_EVERY", 1)

    def counted(trainer, *given):
        taken.append(trainer.state.global_step)
        if killed and len(taken) == STEPS:
            raise KeyboardInterrupt
        return steps(trainer, *given)

    monkeypatch.setattr(PreferenceTrainer, "get_batch_samples", counted)
    stores = [Store(tmp_path / name) for name in ("whole", "cut")]
    task = tasks_of([study], results_in(tmp_path).setting([study]))[0]
    killed = False
    carry_out(task, stores[0].root)
    assert taken == [0, 1]
    taken.clear()
    killed = True
    with pytest.raises(KeyboardInterrupt):
        carry_out(task, stores[1].root)
    assert not stores[1].trained(task.address)
    killed = False
    carry_out(task, stores[1].root)
    assert taken == [0, 1, 1]
    whole, cut = (store.run(task.address) for store in stores)
    assert cut.pairs.equals(whole.pairs)
    assert cut.evals["after"] == whole.evals["after"]
    assert not cut.checkpoints  # gigabytes of a run that is finished


def test_only_runs_that_outlast_a_checkpoint_save_any():
    kept = {"save_strategy": "steps", "save_steps": train.SAVED_EVERY, "save_total_limit": 1}
    for steps, saves in ((train.SAVED_EVERY, {}), (train.SAVED_EVERY + 1, kept), (-1, kept)):
        assert train._kept_on_the_way({"save_strategy": "no", "max_steps": steps}) == saves
    assert train._kept_on_the_way({"save_strategy": "epoch"}) == {}  # its study has checkpoints of its own


def test_a_published_run_counts_as_done_on_another_machine(tmp_path, recipe):
    study, results = small(BY_NAME["real/noise"], recipe, ("simpo",)), results_in(tmp_path)
    first = done(study, results, 1)
    elsewhere = replace(results, store=Store(tmp_path / "elsewhere"))
    setting = elsewhere.setting([study])
    tasks = tasks_of([study], setting)
    left = to_do(not_published([study], setting), setting.store)
    assert {task.address for task in tasks} - {task.address for task in left} == {first[0]["run"]}
    rows = done(study, elsewhere, 1)
    assert rows[: len(first)] == first
    assert len({row["run"] for row in rows}) == 2


def test_a_new_look_at_a_run_without_weights_trains_it_again(tmp_path, recipe):
    noise = small(BY_NAME["real/noise"], recipe, ("gapo",))
    probe = replace(
        noise, name="real/probe", observe=BY_NAME["real/probe"].observe, tables=BY_NAME["real/probe"].tables
    )
    results = results_in(tmp_path)
    (before,) = done(noise, results, 1)
    setting = results.setting([noise, probe])
    task = next(task for task in not_published([noise, probe], setting) if task.address == before["run"])
    assert task.observers == (probe.observe,)
    carry_out(task, setting.store.root)
    rows = setting.store.observed(task.address, probe.observe)
    assert [row["batch_pairs"] for row in rows if row["what"] == "size"] == [8, 16, 32]
    assert setting.store.run(task.address).evals["after"]["accuracy"] == pytest.approx(before["accuracy"])


def test_human_preferences_are_measured_by_subset_and_out_of_distribution(tmp_path, recipe):
    study, results = small(BY_NAME["real/human"], recipe, ("gapo", "dpo")), results_in(tmp_path)
    setting = results.setting([study])
    tasks = tasks_of([study], setting)
    trained, start = (next(task for task in tasks if task.trained is flag) for flag in (True, False))
    dpo = next(task for task in tasks if task.recipe["objective"]["name"] == "dpo")
    for task in (trained, start, dpo):
        carry_out(task, setting.store.root)
    by_task = [(task, setting.store.observed(task.address, study.observe)) for task in (trained, start, dpo)]
    for task, found in by_task:
        parts = [(row["subset"], row["pairs"]) for row in found if row["what"] == "accuracy"]
        assert parts[:3] == [("all", 32), ("agree", 21), ("disagree", 11)]
        assert ("accuracy" in found[0]) == task.trained
    rows = by_task[-1][1]
    whole, agree, disagree = rows[:3]
    assert whole["accuracy"] * 32 == pytest.approx(agree["accuracy"] * 21 + disagree["accuracy"] * 11)
    assert [row["kl"] > 0 for row in rows if row["what"] == "outcome"] == [True]


def test_judges_are_compared_with_the_weights_of_training(tmp_path, recipe):
    study, results = small(BY_NAME["real/judges"], recipe, ("gapo",)), results_in(tmp_path)
    rows = done(study, results)
    (outcome,) = [row for row in rows if row["what"] == "outcome"]
    assert outcome["marked_pairs"] + outcome["other_pairs"] == PAIRS
    area = next(row for row in rows if row["what"] == "finder" and row["signal"] == "weight")
    assert area["area_low"] <= area["area"] <= area["area_high"]
    assert disagreements(study, results.folder / study.name) == []


def test_the_start_model_is_probed_in_bf16_too(tmp_path, recipe):
    study, results = small(BY_NAME["real/probe"], recipe), results_in(tmp_path)
    rows = done(study, results, 1)
    assert all(row["model"] == "start" for row in rows)
    sizes = [row for row in rows if row["what"] == "size"]
    assert all(0.9 < row["first_order_correlation"] <= 1 for row in sizes)
    assert sizes[0]["self_share"] > sizes[-1]["self_share"]
    (low,) = [row for row in rows if row["what"] == "bf16"]
    assert low["gap_correlation"] < 0.999


def silenced(recipe):
    """A recipe without how often it logs."""
    return {**recipe, "train": {key: value for key, value in recipe["train"].items() if key != "logging_steps"}}


@pytest.mark.parametrize("method", ["simpo", "dpo"])
def test_trl_takes_the_same_run_and_begins_at_the_same_loss(tmp_path, recipe, method):
    pytest.importorskip("trl")
    study, results = small(BY_NAME["real/peers"], recipe, (method,)), results_in(tmp_path)
    ours, theirs = done(study, results)
    assert (ours["by"], theirs["by"]) == ("gapo", "TRL")
    recipes = [task.recipe for task in tasks_of([study], results.setting([study]))]
    assert len({json.dumps(silenced(recipe), sort_keys=True) for recipe in recipes}) == 1  # one recipe
    assert theirs["first_loss"] == pytest.approx(ours["first_loss"], rel=0.2)
    assert abs(theirs["accuracy"] - ours["accuracy"]) < 0.15


def test_the_queue_tunes_first_and_trains_with_what_was_chosen(tmp_path, recipe, monkeypatch):
    tuning, noise = (small(BY_NAME[name], recipe, ("simpo",)) for name in ("real/tuning", "real/noise"))
    monkeypatch.setattr(catalogue, "REAL_STUDIES", (tuning, noise))
    monkeypatch.setattr(catalogue, "REAL_TUNING", tuning)
    results = results_in(tmp_path)
    planned = CliRunner().invoke(
        app, ["study", "real", "--plan", "--runs", str(tmp_path / "r"), "--out", str(tmp_path)]
    )
    assert "real/tuning" in planned.output
    assert "about" in planned.output
    done(tuning, results)
    chosen = results.setting([tuning, noise]).tuned["simpo"].learning_rate
    assert all(
        task.recipe["train"]["learning_rate"] == chosen for task in tasks_of([noise], results.setting([tuning, noise]))
    )
    where = ["--runs", str(results.store.root), "--out", str(results.folder)]
    assert CliRunner().invoke(app, ["study", "real", "--from-runs", *where]).exit_code == 0
    assert (
        json.loads((results.folder / tuning.name / ABOUT).read_text())["tuned"] == []
    )  # it chooses, and has no choice


def test_adapters_are_tuned_apart_from_all_weights(tmp_path, recipe):
    tuning, results = small(BY_NAME["real/tuning"], recipe, ("gapo",)), results_in(tmp_path)
    setting = results.setting([tuning])
    whole, adapters = (
        next(task for task in tasks_of([tuning], setting) if bool(task.recipe["model"]["lora"]) is flag)
        for flag in (False, True)
    )
    for task in (whole, adapters):
        carry_out(task, setting.store.root)
    results.write(tuning, setting)
    tables = tuning.tables(read_rows(results.folder / tuning.name / ROWS))
    assert {row["weights"] for row in tables["chosen"]} == {"all"}
    assert [row["learning_rate"] for row in tables["adapters"]] == [adapters.recipe["train"]["learning_rate"]]
    assert (
        results.setting([BY_NAME["real/noise"]]).tuned["gapo"].learning_rate == whole.recipe["train"]["learning_rate"]
    )


def test_a_set_that_is_not_there_is_named_with_the_way_out(monkeypatch, tmp_path):
    monkeypatch.delenv("GAPO_DATA", raising=False)
    with pytest.raises(InputError, match="GAPO_DATA"):
        load_pairs("polite")
    monkeypatch.setenv("GAPO_DATA", str(tmp_path / "none"))
    with pytest.raises(InputError, match="no folder"):
        load_pairs("polite")
    assert len(REAL_STUDIES) == 7
