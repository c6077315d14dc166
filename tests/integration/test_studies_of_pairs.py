"""Studies that look into pairs, for real: a few steps of the lab, probed, selected from, and drawn."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from gapo.diagnostics.tables import column, read_table
from gapo.report.study_files import disagreements, write_study
from gapo.studies import looks
from gapo.studies.about import about_study
from gapo.studies.catalogue import CATALOGUE
from gapo.studies.conduct import gathered
from gapo.studies.rows import first, where
from gapo.studies.store import Store
from gapo.studies.tasks import Setting, tasks_of, waves
from gapo.studies.train import carry_out
from study_of_tests import SCALE

CHANGES = {
    "train.max_steps": 4,
    "train.warmup_steps": 0,
    "data.limit": 16,
}  # with a warm-up the first step is of rate 0
SHORT = replace(SCALE, changes={**SCALE.changes, **CHANGES}, step_pairs=4)


@pytest.fixture
def made(tmp_path):
    """Carry out a study with one seed, here; its rows, tables and setting."""

    def make(name, grid=None):
        study = CATALOGUE[name]
        study = replace(study, grid=grid) if grid is not None else study
        setting = Setting(SHORT, Store(tmp_path / "runs"), {}, 1)
        for wave in waves(tasks_of([study], setting)):
            for task in wave:
                carry_out(task, setting.store.root)
        rows = gathered(study, setting, [])
        page = write_study(study, rows, about_study(study, setting), tmp_path / "out")
        assert disagreements(study, page.parent) == []
        return rows, study.tables(rows), setting.store

    return make


def test_mechanism_probes_every_quarter_of_the_run(made):
    rows, tables, store = made("mechanism")
    assert [row["epoch"] for row in rows] == [0.0, 0.25, 0.5, 0.75, 1.0]
    run = store.run(rows[0]["run"])
    assert {row["pairs"] for row in rows} == {16}
    assert len({row["clean"] for row in rows}) == 5  # five different models
    end = rows[-1]
    assert np.isclose(end["relative"], end["flipped"] / end["clean"] - 1)
    flips = column(run.pairs, "flipped").mean()
    assert np.isclose(0.2 * end["bottom"] + 0.6 * end["middle"] + 0.2 * end["top"], flips)
    assert first(tables["tiers"], epoch=1.0, tier="top 20 %")["flip_rate"] == end["top"]


def test_the_probe_looks_at_the_start_and_at_the_trained_model(made, monkeypatch):
    monkeypatch.setattr(looks, "PROBE_PAIRS", 32)
    monkeypatch.setattr(looks, "PROBE_BATCH", 8)
    rows, tables, _ = made("probe")
    start, trained = (first(rows, model=name, gradients="measured") for name in ("start model", "after an epoch"))
    assert (start["pairs"], start["batches"]) == (32, 4)
    assert start["alignment"] != trained["alignment"]
    assert first(rows, model="start model", gradients="orthogonal")["positive"] == 1
    assert len(tables["pairs"]) == 2 * 32 // looks.SHOWN
    assert [row["paper"] for row in tables["statistics"] if row["paper"]] == [0.994, 0.084, 0.909, 0.861, 0.78, 0.59]


def test_confounds_measures_sizes_signals_and_methods(made):
    rows, tables, store = made("confounds")
    assert [row["batch_pairs"] for row in where(rows, what="size")] == [8, 16]
    assert {row["method"] for row in where(rows, what="method")} == {"gapo", "simpo", "length_only", "gradnorm"}
    signals = where(rows, what="signal")
    assert {(row["quarter"], row["signal"]) for row in signals} == set(product((1, 2, 3, 4), looks.SIGNALS))
    assert {row["method"] for row in signals} == {"gapo"}
    gapo = store.run(first(rows, what="method", method="gapo")["run"])
    assert first(rows, what="method", method="gapo")["accuracy"] == gapo.evals["after"]["accuracy"]
    assert set(tables) >= {"self_share", "explained", "signals"}


def test_selection_trains_on_what_the_start_model_scored(made):
    def grid(scale):
        return [cell for cell in CATALOGUE["selection"].grid(scale) if cell.labels["share"] in (0.5, 1.0)]

    rows, tables, store = made("selection", grid)
    scores = read_table(store.root / first(rows, what="scores")["run"])
    order = np.argsort(column(scores, "gap"))
    ids = np.array(scores["pair_id"].to_pylist())
    for keep, expected in (("lowest", ids[order[:8]]), ("highest", ids[order[8:]])):
        row = first(rows, what="outcome", keep=keep)
        run = store.run(row["run"])
        assert set(run.pairs["pair_id"].to_pylist()) == set(expected)
        assert row["kl"] > 0
        assert np.isclose(row["grad_norm"], np.mean([step["grad_norm"] for step in run.steps]))
        assert first(rows, what="scores")["run"] in run.recipe["data"]["select"]["from"]
    assert len(where(tables["norms"], keep="random")) == 5
