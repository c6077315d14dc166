"""Every study, drawn from a small fixture without training; and the committed pages say what their rows say."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from gapo.report.publish import Results
from gapo.report.study_figures import draw
from gapo.report.study_files import ABOUT, PAGE, ROWS, disagreements, read_study, write_index, write_study
from gapo.studies.about import about_study
from gapo.studies.catalogue import BY_NAME, CATALOGUE
from gapo.studies.conduct import gathered
from gapo.studies.exhibits import Column, Curves, Dots
from gapo.studies.judged_looks import probes
from gapo.studies.rows import read_rows
from gapo.studies.scale import MINI, SMOLLM2
from gapo.studies.second_order_looks import COMMON, EVERY, HEAD, OWN, expansions, spectra
from gapo.studies.store import Store, write_json
from gapo.studies.tasks import Setting, rows_of, tasks_of
from gapo.studies.tuned import read_tuned
from invented_rows import rows_for
from study_of_tests import SCALE, TINY

RESULTS = Path(__file__).parents[3] / "results"
COMMITTED = sorted(path.parent for name in BY_NAME for path in (RESULTS / name).rglob(ABOUT))


def study_at(folder):
    """The name of the study whose page lies here; scales but the usual one have a folder below it."""
    place = folder.relative_to(RESULTS)
    return max((name for name in BY_NAME if place.is_relative_to(name)), key=len)


def invented(task):
    """An outcome that differs between runs, the same each time."""
    number = int(task.address[:8], 16) / 2**32
    return {
        "accuracy": 0.6 + 0.1 * number,
        "likelihood_accuracy": 0.55 + 0.1 * number,
        "margin": number,
        "win_rate": 0.5 + 0.2 * number,
        "lc_win_rate": 0.5 + 0.15 * number,
        "skill": 0.9 - 0.1 * number,
        "drift": 0.1 * number,
        "reply_tokens": 10 + number,
        "pairs": 800,
        "seconds": 5 + 10 * number,
        "steps": 50,
        "peak_bytes": int(5e8 * (1 + number)),
    }


def invented_spectra(task):
    number = int(task.address[:8], 16) / 2**32
    values = {"lambda_max": 10 + number, "top_mean": 5 + number, "lambda_min": -1 - number, "off": 1e-6}
    return [{"part": part, "loss": loss, **values} for part in (HEAD, EVERY) for loss in (OWN, COMMON)]


def invented_expansions(task):
    """Exact powers of the radius."""
    number = 1 + int(task.address[:8], 16) / 2**32
    powers = {f"power_{order}": order + 1.0 for order in (0, 1, 2)}
    sizes = {"direction_norm": number, "curvature": 0.1, "lambda_max": 1.0, "floor": 0.9, "ceiling": 1.1, "gap": 0.995}
    return [
        {"radius": rho, **{f"rest_{k}": number * rho ** (k + 1) for k in (0, 1, 2)}, **sizes, "holds": True, **powers}
        for rho in (0.001, 0.01, 0.1)
    ]


def invented_probes(task):
    """Disputed pairs weigh less, all but one."""
    rng = np.random.default_rng(int(task.address[:8], 16))
    marks = [k % 2 == 0 for k in range(16)]
    others = dict.fromkeys(("margin", "gap", "gap_self", "gap_others", "grad_norm"), 0.5)
    tokens = {"chosen_tokens": 4, "rejected_tokens": 5}
    weights = [1.2 - 0.2 * (mark and k > 0) + 0.01 * rng.random() for k, mark in enumerate(marks)]
    return [
        {"pair_id": f"{task.address}{k}", "prompt": int(rng.integers(1e9)), "disputed": mark, "weight": w, **others}
        | tokens
        for k, (mark, w) in enumerate(zip(marks, weights, strict=True))
    ]


INVENTED = {spectra: invented_spectra, expansions: invented_expansions, probes: invented_probes}


def filled(study, folder, seeds=2):
    """A store with an invented outcome for every run of a study."""
    setting = Setting(MINI, Store(folder), {}, seeds)
    for task in tasks_of([study], setting):
        rows = INVENTED[study.observe](task) if study.observe in INVENTED else rows_for(study, task, invented(task))
        setting.store.keep(task.address, study.observe, rows)
    return setting


@pytest.fixture(params=BY_NAME.values(), ids=lambda study: study.name)
def drawn(request, tmp_path):
    study = request.param
    setting = filled(study, tmp_path / "runs")
    folder = tmp_path / "results" / study.name
    write_study(study, gathered(study, setting, []), about_study(study, setting), folder)
    return study, setting, folder


def test_a_study_is_drawn_from_its_runs_without_training(drawn):
    study, setting, folder = drawn
    page = (folder / PAGE).read_text()
    assert study.question in page
    assert f"gapo study {study.name} --scale mini --seeds 2" in page
    assert page.count("![") == len(list(folder.glob("*.png"))) == len(list(folder.glob("*.svg"))) > 0
    rows, _ = read_study(folder)
    assert len({row["run"] for row in rows}) == len(tasks_of([study], setting))
    assert len(study.findings(study.tables(rows))) == 3
    assert not re.search(r"\b(nan|None|inf)\b", page)
    assert disagreements(study, folder) == []


def test_a_table_that_does_not_agree_with_its_page_is_found(drawn):
    study, _, folder = drawn
    table = next(folder.glob("*.csv"))
    table.write_text(table.read_text().replace("0.", "1.", 1))
    page = folder / PAGE
    page.write_text(page.read_text().replace(" %", "1 %", 1))
    next(folder.glob("*.png")).unlink()
    assert {table.name, PAGE} < set(disagreements(study, folder))
    assert len(disagreements(study, folder)) == 3


@pytest.mark.parametrize("folder", COMMITTED, ids=lambda path: path.relative_to(RESULTS).as_posix())
def test_a_committed_page_says_what_its_rows_say(folder):
    study = BY_NAME[study_at(folder)]
    assert disagreements(study, folder) == []


def test_the_index_names_every_committed_study(tmp_path):
    if COMMITTED:
        text = (RESULTS / PAGE).read_text()
        assert all(f"({folder.relative_to(RESULTS).as_posix()}/README.md)" in text for folder in COMMITTED)


def test_the_index_has_a_line_a_study_with_what_it_found(tmp_path):
    study = CATALOGUE["noise"]
    setting = filled(study, tmp_path / "runs")
    write_study(study, gathered(study, setting, []), about_study(study, setting), tmp_path / "results" / "noise")
    text = write_index(tmp_path / "results").read_text()
    found = json.loads((tmp_path / "results" / "noise" / ABOUT).read_text())["found"]
    assert f"| [noise](noise/README.md) | {study.question} | {found[0]} |" in text


def test_rows_of_a_page_stand_in_for_runs_that_are_gone(tmp_path):
    study = CATALOGUE["noise"]
    rows = gathered(study, filled(study, tmp_path / "runs"), [])
    empty = Setting(MINI, Store(tmp_path / "none"), {}, 2)
    assert gathered(study, empty, rows) == rows
    assert len(rows_of(study, empty)[1]) == len(rows)


@pytest.mark.parametrize("study", [study for study in BY_NAME.values() if study.long], ids=lambda study: study.name)
def test_a_page_of_hours_loses_no_row_where_its_runs_are_not(study, tmp_path):
    """Rows may say a label more exactly: the rate of a tier, or one tried on the start model."""
    results = Results(RESULTS, Store(tmp_path / "none"), SMOLLM2)
    kept = read_rows(RESULTS / study.name / ROWS)
    found = results.rows(study, results.setting([study]), kept=True)
    assert [json.dumps(row) for row in found] == [json.dumps(row) for row in kept]


def test_the_means_of_a_page_are_those_of_its_rows(tmp_path):
    study = CATALOGUE["alignment"]
    rows = gathered(study, filled(study, tmp_path / "runs"), [])
    wins = [row["lc_win_rate"] for row in rows if row["method"] == "gapo"]
    others = [row["lc_win_rate"] for row in rows if row["method"] == "simpo"]
    tables = study.tables(rows)
    ours = next(row for row in tables["methods"] if row["method"] == "gapo")
    assert math.isclose(ours["lc_win_rate"], sum(wins) / 2)
    assert ours["paper_lc"] == 0.357
    against = next(row for row in tables["gapo_minus"] if row["method"] == "simpo")
    assert math.isclose(against["lc_win_rate"], (sum(wins) - sum(others)) / 2, abs_tol=1e-12)
    assert against["paper"] == 0.036
    page = write_study(
        study, rows, about_study(study, Setting(MINI, Store(tmp_path), {}, 2)), tmp_path / "out"
    ).read_text()
    assert f"| GAPO | {100 * sum(wins) / 2:.1f} %" in page


def test_curvature_is_compared_with_the_paper_only_where_the_paper_measured(tmp_path):
    study = CATALOGUE["curvature"]
    tables = study.tables(gathered(study, filled(study, tmp_path), []))
    quoted = [(row["part"], row["loss"]) for row in tables["spectrum"] if row["paper_lambda_max"] is not None]
    assert quoted == [(HEAD, OWN)] * 3
    assert [claim.paper for claim in study.claims(tables)] == [-4.5, -8.5, 61.7, -13.7, -4.0, 25.5]


def test_theory_counts_every_bound_and_says_when_one_is_broken(tmp_path):
    study = CATALOGUE["theory"]
    rows = gathered(study, filled(study, tmp_path), [])
    assert (
        "tried 18 times, at every radius, model and batch, and never violated" in study.findings(study.tables(rows))[1]
    )
    broken = [{**rows[0], "holds": False}, *rows[1:]]
    assert "violated 1 times" in study.findings(study.tables(broken))[1]
    lines = [row for row in study.tables(rows)["left"] if row["line"] == "left by two terms" and row["model"] == "gapo"]
    slopes = np.diff([row["log_size"] for row in lines]) / np.diff([row["log_radius"] for row in lines])
    assert np.allclose(slopes, 3)


def test_judges_takes_all_seeds_pairs_together_and_claims_no_more_than_the_interval(tmp_path):
    study = CATALOGUE["judges"]
    rows = gathered(study, filled(study, tmp_path), [])
    tables = study.tables(rows)
    (summary,) = tables["weights"]
    assert (summary["marked_pairs"], summary["other_pairs"]) == (16, 16)
    weights = {mark: np.mean([row["weight"] for row in rows if row["disputed"] is mark]) for mark in (True, False)}
    assert math.isclose(summary["relative"], weights[True] / weights[False] - 1, rel_tol=1e-9)
    assert "clear: disputed pairs are the low-weight ones" in study.findings(tables)[2]
    equal = [{**row, "weight": 1.0} for row in rows]
    assert "do not show" in study.findings(study.tables(equal))[2]


def test_tuning_writes_what_the_other_studies_read(tmp_path):
    study = BY_NAME["tuning"]
    setting = filled(study, tmp_path / "runs")
    rows = gathered(study, setting, [])
    write_study(study, rows, about_study(study, setting), tmp_path / "tuning")
    tuned = read_tuned(tmp_path / "tuning")
    chosen = next(row for row in study.tables(rows)["chosen"] if row["method"] == "gapo")
    assert tuned["gapo"].learning_rate == chosen["learning_rate"]
    assert tuned["gapo"].knobs == json.loads(chosen["knobs"])
    assert set(about_study(CATALOGUE["noise"], Setting(MINI, Store(tmp_path), tuned))["tuned"]) >= {"gapo", "dpo"}


def test_of_settings_that_cannot_be_told_apart_the_gentlest_is_chosen():
    def tried(rate, knob, accuracy):
        labels = {"method": "dpo", "learning_rate": rate, "knobs": json.dumps({"beta": knob})}
        return [{**labels, "seed": seed, "run": "r", "accuracy": accuracy, "pairs": 200} for seed in (100, 101)]

    # the standard error of 0.7 over 400 pairs is 0.0229
    rows = [*tried(1.0, 1, 0.67), *tried(2.0, 1, 0.68), *tried(2.0, 2, 0.69), *tried(4.0, 1, 0.7)]
    (chosen,) = BY_NAME["tuning"].tables(rows)["chosen"]
    assert (chosen["learning_rate"], chosen["knobs"]) == (2.0, '{"beta": 2}')
    assert chosen["edge"] == "no"


def test_a_run_that_stopped_is_named_and_its_setting_not_chosen(tmp_path):
    study = BY_NAME["tuning"]
    setting = filled(study, tmp_path / "runs")
    rows = gathered(study, setting, [])
    best = next(row for row in study.tables(rows)["chosen"] if row["method"] == "gapo")
    address = next(
        row["run"]
        for row in rows
        if row["method"] == "gapo" and row["knobs"] == best["knobs"] and row["learning_rate"] == best["learning_rate"]
    )
    write_json(setting.store.root / address / "stopped.json", {"reason": "the loss is not finite at step 3"})
    rows = gathered(study, setting, [])
    chosen = next(row for row in study.tables(rows)["chosen"] if row["method"] == "gapo")
    assert (chosen["learning_rate"], chosen["knobs"]) != (best["learning_rate"], best["knobs"])
    page = write_study(study, rows, about_study(study, setting), tmp_path / "out").read_text()
    assert "the loss is not finite at step 3" in page


def test_every_kind_of_figure_is_drawn(tmp_path):
    setting = Setting(SCALE, Store(tmp_path / "runs"), {}, 3)
    for number, task in enumerate(tasks_of([TINY], setting)):
        setting.store.keep(task.address, TINY.observe, [{"steps": number, "accuracy": 0.5 + 0.01 * number}])
    write_study(TINY, gathered(TINY, setting, []), about_study(TINY, setting), tmp_path / "out")
    assert sorted(path.stem for path in (tmp_path / "out").glob("*.png")) == ["cloud", "curves", "dots", "histogram"]


def test_panels_that_share_an_axis_show_all_of_their_data():
    at, value, who, panel = (Column(key, key) for key in ("x", "y", "who", "panel"))
    levels = {"left": 0.8, "right": 0.1}
    rows = [{"x": x, "y": level - x, "who": "gapo", "panel": side} for side, level in levels.items() for x in (0, 0.05)]
    figure = draw(Curves("curves", "rows", "Curves", at, value, who, panel), rows)
    for axes in figure.axes:
        low, high = axes.get_ylim()
        assert low < 0.05
        assert high > 0.8


def test_values_of_several_orders_of_magnitude_have_a_logarithmic_axis():
    rows = [{"who": "gapo", "y": 0.2}, {"who": "dpo", "y": 300.0}]
    (axes,) = draw(Dots("dots", "rows", "Dots", Column("y", "y"), Column("who", "who"), log=True), rows).axes
    assert axes.get_xscale() == "log"
