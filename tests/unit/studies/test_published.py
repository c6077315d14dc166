"""Pages of studies of hours: what is there is shown, what is missing is said, and what a model said does nothing."""

import pytest

from gapo.report.publish import Results
from gapo.report.study_files import PAGE, disagreements
from gapo.report.study_page import cell, pivot_cells
from gapo.studies.catalogue import BY_NAME, REAL_STUDIES
from gapo.studies.exhibits import SAID, WORDS, Column, Pivot
from gapo.studies.grid import Cell
from gapo.studies.planned import NOT_YET, with_planned
from gapo.studies.scale import SMOLLM2
from gapo.studies.sentences import NONE
from gapo.studies.store import Store
from gapo.studies.tasks import not_published, tasks_of
from invented_rows import rows_for

OUTCOME = dict.fromkeys(("accuracy", "likelihood_accuracy", "margin", "pairs", "seconds", "steps"), 0.5)


@pytest.mark.parametrize("study", REAL_STUDIES, ids=lambda study: study.name)
def test_every_beginning_of_a_queue_has_a_page(study, tmp_path):
    results = Results(tmp_path / "results", Store(tmp_path / "runs"), SMOLLM2, seeds=1)
    setting = results.setting([study])
    assert results.write(study, setting) is None
    tasks = tasks_of([study], setting)
    for task in tasks[:3]:
        results.store.keep(task.address, study.observe, rows_for(study, task, OUTCOME))
        page = results.write(study, setting).read_text()
        assert len(study.findings(study.tables(results.rows(study, setting, kept=False)))) == 3
        assert disagreements(study, results.folder / study.name) == []
    left = len(tasks) - len(tasks[:3])
    assert (f"Not run yet: {left} of {len(tasks)} runs" in page) == (left > 0)
    assert f"{len(tasks[:3])} of {len(tasks)} runs, seeds" in (results.folder / "real" / PAGE).read_text()


def test_planned_cells_stand_in_the_order_of_the_grid_with_no_seed():
    cells = [Cell("gapo", labels={"rate": 0.2}), Cell("dpo", labels={"rate": 0.2}), Cell("gapo", labels={"rate": 0.0})]
    table = [{"rate": 0.0, "method": "gapo", "accuracy": 0.5, "seeds": 1}]
    found = with_planned(table, cells, ["rate", "method"])
    assert [(row["method"], row["rate"], row["seeds"]) for row in found] == [
        ("gapo", 0.2, 0),
        ("dpo", 0.2, 0),
        ("gapo", 0.0, 1),
    ]
    assert NOT_YET


def test_the_first_seed_of_every_part_comes_before_the_second_of_any(tmp_path):
    setting = Results(tmp_path, Store(tmp_path), SMOLLM2).setting(REAL_STUDIES)
    seeds = [task.recipe["train"]["seed"] for task in tasks_of(REAL_STUDIES, setting)]
    assert seeds == sorted(seeds)
    assert set(seeds) == {0, 1, 2, 100}


def test_what_one_part_has_seen_another_does_not_train_again(tmp_path):
    """real/consensus looks at runs of real/noise in the same way: rows of one page serve the other."""
    noise, consensus = (BY_NAME[f"real/{name}"] for name in ("noise", "consensus"))
    results = Results(tmp_path / "results", Store(tmp_path / "runs"), SMOLLM2, seeds=1)
    alone = len(not_published([consensus], results.setting([consensus])))
    shared = {task.address for task in tasks_of([consensus], results.setting([consensus]))}
    setting = results.setting([noise])
    tasks = tasks_of([noise], setting)
    for task in tasks:
        results.store.keep(task.address, noise.observe, rows_for(noise, task, OUTCOME))
    results.write(noise, setting)
    elsewhere = Results(results.folder, Store(tmp_path / "other"), SMOLLM2, seeds=1)
    both = [task.address for task in tasks if task.address in shared]
    assert both
    assert len(not_published([consensus], elsewhere.setting([consensus]))) == alone - len(both)
    rows = elsewhere.rows(consensus, elsewhere.setting([consensus]), kept=False)
    assert {row["run"] for row in rows} == set(both)
    assert {row["method"] for row in rows} == {"dpo", "simpo", "robust_dpo", "dr_dpo", "gapo"}


def test_no_two_cells_of_a_part_share_a_place(tmp_path):
    for study in REAL_STUDIES:
        setting = Results(tmp_path, Store(tmp_path), SMOLLM2).setting([study])
        cells = len(study.grid(SMOLLM2)) * len(study.seed_list(SMOLLM2, None))
        assert len(tasks_of([study], setting)) == cells


def test_what_a_model_said_is_shown_and_does_nothing():
    said = Column("after", "after", SAID)
    text = cell({"after": "a|b *c* [d](e) <img src=x> `f` \u202egh" + "x" * 300}, said)
    assert "<img" not in text
    assert "\u202e" not in text
    assert all(f"\\{mark}" in text for mark in "|*[]`")
    assert text.endswith(" ...")
    assert len(text) < 260


def test_a_planned_cell_says_that_it_is_not_run_and_one_that_nobody_planned_says_nothing():
    pivot = Pivot(
        "t",
        "T",
        (Column("rate", "rate", WORDS),),
        Column("method", "m", WORDS),
        Column("accuracy", "a"),
        absent=NOT_YET,
    )
    rows = [
        {"rate": "20 %", "method": "dpo", "accuracy": 0.5},
        {"rate": "20 %", "method": "ours", "accuracy": None},
        {"rate": "0 %", "method": "dpo", "accuracy": 0.6},
    ]
    _, lines = pivot_cells(pivot, rows)
    assert lines == [["20 %", "50.0 %", NOT_YET], ["0 %", "60.0 %", NONE]]
