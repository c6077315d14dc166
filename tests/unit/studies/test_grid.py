"""Cells become recipes; runs are addressed by what they are, and shared."""

import ast
from pathlib import Path

import pytest

from gapo.errors import InputError
from gapo.objectives import objectives
from gapo.runs.data import load_data
from gapo.runs.recipe import recipe_hash
from gapo.studies import paper
from gapo.studies.catalogue import BY_NAME, CATALOGUE, studies_named
from gapo.studies.grid import Cell, Choice, address_of, recipe_of
from gapo.studies.knobs import FACTORS, KNOBS, SAME_AS
from gapo.studies.scale import MINI, SCALES, SMOLLM2, scale_of
from gapo.studies.store import Store
from gapo.studies.tasks import Setting, asked_for, tasks_of
from gapo.studies.tuning import TUNING

FOLDER = Path(__file__).parents[3] / "src" / "gapo" / "studies"


def setting(tmp_path, scale=MINI, tuned=None, seeds=None):
    return Setting(scale, Store(tmp_path), tuned or {}, seeds)


@pytest.mark.parametrize("scale", SCALES.values(), ids=lambda scale: scale.name)
@pytest.mark.parametrize("study", BY_NAME.values(), ids=lambda study: study.name)
def test_every_cell_is_a_recipe_of_one_method(study, scale, tmp_path):
    for cell in study.grid(scale):
        recipe = recipe_of(cell, scale, 0, {})
        assert recipe["objective"]["name"] == cell.method
        assert recipe["train"]["seed"] == recipe["noise"]["seed"] == 0


def test_studies_share_their_runs(tmp_path):
    small = setting(tmp_path, seeds=2)
    counts = {name: len(tasks_of([study], small)) for name, study in CATALOGUE.items()}
    assert len(tasks_of(CATALOGUE.values(), small)) < sum(counts.values())
    clean = {task.address for task in tasks_of([CATALOGUE["alignment"]], small)}
    noisy = {task.address for task in tasks_of([CATALOGUE["noise"]], small)}
    assert len(clean & noisy) == 3 * 2  # gapo, dpo and simpo without flips


def test_all_studies_together_are_few_enough_for_an_hour(tmp_path):
    assert len(tasks_of(studies_named("all"), setting(tmp_path))) <= 385


def test_all_of_the_lab_needs_no_real_language_model():
    of_the_paper = set(CATALOGUE.values()) - {
        CATALOGUE["consensus"],
        CATALOGUE["labels"],
    }  # ours, run by their own names
    assert set(studies_named("all", SMOLLM2)) == of_the_paper
    left_out = of_the_paper - set(studies_named("all"))
    assert [study.name for study in left_out] == ["judges"]
    assert studies_named("judges") == [CATALOGUE["judges"]]


def test_clean_runs_serve_both_kinds_of_noise(tmp_path):
    asked = [asked for asked, _ in asked_for(CATALOGUE["noise"], setting(tmp_path, seeds=1))]
    clean = [one for one in asked if one.cell.labels["rate"] == 0 and one.cell.method == "gapo"]
    assert [one.cell.labels["flips"] for one in clean] == ["at random", "by length"]
    assert len({one.address for one in clean}) == 1


def test_an_address_is_the_hash_of_the_recipe_and_says_how_it_is_run():
    recipe = recipe_of(Cell("gapo"), MINI, 0, {})
    assert address_of(recipe, Cell("gapo")) == recipe_hash(recipe)
    assert address_of(recipe, Cell("gapo", timed=True)) == recipe_hash(recipe) + "-timed"
    assert address_of(recipe, Cell("gapo", trained=False)) == recipe_hash(recipe) + "-start"
    assert recipe_hash(recipe_of(Cell("gapo"), MINI, 1, {})) != recipe_hash(recipe)


def test_tuned_knobs_are_used_and_a_cell_has_the_last_word():
    tuned = {"gapo": Choice(3e-4, {"beta": 7.0}), "simpo": Choice(1e-4, {"beta": 4.0, "gamma_beta_ratio": 0.1})}
    recipe = recipe_of(Cell("gapo"), MINI, 0, tuned)
    assert (recipe["train"]["learning_rate"], recipe["objective"]["beta"]) == (3e-4, 7.0)
    assert recipe_of(Cell("gapo", {"objective.beta": 1.0}), MINI, 0, tuned)["objective"]["beta"] == 1.0
    assert recipe_of(Cell("simpo"), MINI, 0, tuned)["objective"]["gamma_beta_ratio"] == 0.1
    assert recipe_of(Cell("dpo"), MINI, 0, tuned)["train"]["learning_rate"] == 2e-4


def test_a_later_run_has_the_earlier_ones_hash_in_its_recipe(tmp_path):
    score = Cell("gapo")
    later = Cell("simpo", {"data.train": "{after}/low.jsonl"}, after=score)
    recipe = recipe_of(later, MINI, 0, {}, f"runs/studies/{address_of(recipe_of(score, MINI, 0, {}), score)}")
    assert recipe_hash(recipe_of(score, MINI, 0, {})) in recipe["data"]["train"]
    assert recipe["data"]["eval"] is None  # as with any training pairs of one's own


def test_tuning_never_sees_a_test_pair_and_never_uses_a_seed_of_the_studies(tmp_path):
    test_prompts = {pair.prompt for pair in load_data(recipe_of(Cell("gapo"), MINI, 0, {}))[1]}
    cells = TUNING.grid(MINI)
    train, validation = load_data(recipe_of(cells[0], MINI, 100, {}))
    assert not test_prompts & {pair.prompt for pair in [*train, *validation]}
    assert not {pair.prompt for pair in train} & {pair.prompt for pair in validation}
    assert len(validation) == 800
    assert not any(validation.flipped)
    assert sum(map(bool, train.flipped)) == round(0.2 * len(train))
    assert not set(TUNING.seed_list(MINI, None)) & set(CATALOGUE["noise"].seed_list(MINI, 20))


def test_every_method_gets_a_grid_of_the_same_size():
    assert {len(settings) for settings in KNOBS.values()} == {3}
    assert len(TUNING.grid(MINI)) == len(KNOBS) * 3 * len(FACTORS)
    used = {cell.method for study in CATALOGUE.values() for cell in study.grid(MINI)}
    assert {SAME_AS.get(method, method) for method in used} <= set(KNOBS) <= set(objectives())


def test_the_papers_figures_are_shares():
    tables = (paper.ALPACA_LC, paper.ALPACA_WIN, paper.GSM8K, paper.NOISE_ACCURACY, paper.ABLATIONS)
    assert all(0 < figure < 1 for table in tables for figure in table.values())
    assert paper.NOISE_ACCURACY["by length", 0.4, "dr_dpo"] == 0.449


def test_runs_that_are_compared_in_time_are_alone_and_alternate(tmp_path):
    tasks = tasks_of([CATALOGUE["efficiency"]], setting(tmp_path, seeds=2))
    assert all(task.timed for task in tasks)
    assert [task.recipe["train"]["seed"] for task in tasks] == [0] * 6 + [1] * 6


def test_names_that_do_not_exist_are_answered():
    with pytest.raises(InputError, match="did you mean 'noise'"):
        studies_named("noisy")
    with pytest.raises(InputError, match="unknown scale"):
        scale_of("large")
    assert scale_of("smollm2") is SMOLLM2


@pytest.mark.parametrize("name", BY_NAME)
def test_a_study_is_a_short_value_that_opens_no_file_and_draws_nothing(name):
    text = (FOLDER / f"{name.replace('/', '_')}.py").read_text()
    assert len(text.splitlines()) <= 100
    imported = {
        node.module if isinstance(node, ast.ImportFrom) else alias.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert not imported & {"matplotlib", "pathlib", "os", "gapo.storage"}
    assert "open(" not in text
