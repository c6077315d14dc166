"""Recipes: names and paths, overrides, defaults, and errors that tell the way out."""

import re

import pytest

from gapo.errors import InputError
from gapo.runs.recipe import preference_arguments, read_recipe, recipe_hash, recipe_names, resolved, runs_of


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_that_ships_is_complete_and_its_knobs_are_known(name):
    recipe = read_recipe(name, ["train.output_dir=out"])
    sections = ["model", "data", "noise", "objective", "anchor", "train"]
    assert list(recipe)[:6] == sections
    assert set(recipe) - set(sections) <= {"about", "methods"}
    assert all(list(run) == sections for run in runs_of(recipe))


def test_overrides_reach_their_place_with_their_type():
    recipe = read_recipe(
        "mini",
        ["objective.name=dpo", "objective.beta=0.3", "train.learning_rate=2e-5", "data.limit=12", "model.lora={r: 4}"],
    )
    assert recipe["objective"]["name"] == "dpo"
    assert recipe["train"]["learning_rate"] == 2e-5
    assert recipe["data"]["limit"] == 12
    assert recipe["model"]["lora"] == {"r": 4}
    assert preference_arguments(runs_of(recipe)[0])["knobs"] == {"beta": 0.3}


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("model.name=null", "model.name must be a name or a path"),
        ("model.lora=5", "model.lora must be fields"),
        ("data.limit=abc", "data.limit must be a whole number of at least 1, not 'abc'"),
        ("data.limit=2.5", "whole number"),
        ("data.eval_limit=0", "at least 1"),
        ("data.strict=abc", "true or false"),
        ("noise.rate=abc", "noise.rate must be a number from 0 to 1"),
        ("noise.rate=true", "noise.rate must be a number"),
        ("noise.rate=2", "from 0 to 1"),
        ("noise.seed=1.5", "whole number"),
        ("anchor.radius=abc", "anchor.radius must be a number"),
        ("anchor.batches=2.5", "anchor.batches must be a whole number"),
        ("anchor.scope=5", "anchor.scope must be a name"),
        ("train.learning_rate=abc", "train.learning_rate must be a number"),
        ("train.learning_rate=.nan", "train.learning_rate must be a number"),
        ("train.max_steps=0", "train.max_steps must be"),
        ("train.gradient_accumulation_steps=-1", "at least 1"),
        ("train.per_device_train_batch_size=0", "at least 1"),
        ("train.weight_decay=abc", "train.weight_decay must be a number"),
        ("train.use_cpu=abc", "train.use_cpu must be true or false"),
        ("train.seed=abc", "train.seed must be a whole number"),
        ("train.output_dir=[a]", "train.output_dir must be a name or a path"),
        ("objective.name=[]", "one objective, or several different ones"),
        ("objective.name=[gapo, gapo]", "several different ones"),
        ("objective.name=[[gapo]]", "unknown objective"),
        ("objective.dpo.foo=1", "dpo has no knob 'foo'"),
    ],
)
def test_values_of_the_wrong_kind_are_named(override, words):
    with pytest.raises(InputError, match=re.escape(words)):
        read_recipe("mini", [override])


def test_words_stay_words():
    recipe = read_recipe("mini", ["train.save_strategy=no", "data.train=e5", "model.revision=1234567e8"])
    assert recipe["train"]["save_strategy"] == "no"
    assert recipe["data"]["train"] == "e5"
    assert recipe["model"]["revision"] == "1234567e8"


def test_a_path_works_like_a_name(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("objective:\n  name: simpo\n  gamma_beta_ratio: 0.5\ntrain:\n  learning_rate: 1e-5\n")
    recipe = read_recipe(str(path))
    assert recipe["train"]["learning_rate"] == 1e-5
    assert recipe["anchor"]["radius"] == 0.05


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["objectiv.name=dpo"], "unknown section 'objectiv'; did you mean 'objective'"),
        (["objective.bta=1"], "unknown key 'objective.bta'; did you mean 'beta'"),
        (["train.learning_rat=1"], "unknown key 'train.learning_rat'; did you mean 'learning_rate'"),
        (["anchor.radiu=1"], "did you mean 'radius'"),
        (["objective.name=dpoo"], "unknown objective 'dpoo'; did you mean"),
        (["beta"], "not of the form section.key=value"),
        (["beta=3"], "not of the form section.key=value"),
    ],
)
def test_unknown_keys_are_answered_with_the_nearest_name(overrides, words):
    with pytest.raises(InputError, match=words):
        read_recipe("mini", overrides)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("model: [", "line 1 is not a readable YAML"),
        ("- a\n- b\n", "must hold the sections"),
        ("model: 3\n", "section 'model' must hold keys"),
        ("model: &a\n  name: *a\n", "nested too deeply|not a readable YAML"),
        ("objective:\n  name: simpo\n  simpo: 3\n", "must hold knobs"),
        ("objective:\n  name: simpo\n  gamma: 1.0\n  gamma_beta_ratio: 1.0\n", "not both"),
        ("objective:\n  name: simpo\n  e: 0.1\n", "simpo has no knob 'e'"),
    ],
)
def test_broken_recipes_are_one_sentence(text, words, tmp_path):
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        recipe = read_recipe(str(path), ["train.output_dir=out"])
        runs_of(recipe)


def test_an_unknown_recipe_names_the_nearest():
    with pytest.raises(InputError, match="there is no recipe 'minni'; did you mean 'mini'"):
        read_recipe("minni")


def test_other_training_pairs_bring_their_own_evaluation_pairs():
    assert read_recipe("mini", ["data.train=mine.jsonl"])["data"]["eval"] is None
    assert read_recipe("mini", ["data.train=mine.jsonl", "data.eval=lab:test"])["data"]["eval"] == "lab:test"
    assert read_recipe("mini")["data"]["eval"] == "lab:test"
    assert read_recipe("mini")["noise"]["rate"] == 0.2
    assert read_recipe("mini", ["data.train=mine.jsonl"])["noise"]["rate"] == 0
    assert read_recipe("mini", ["data.train=mine.jsonl", "noise.rate=0.3"])["noise"]["rate"] == 0.3


def test_several_objectives_make_several_runs_with_their_own_knobs():
    recipe = resolved(
        {
            "objective": {"name": ["simpo", "gapo"], "simpo": {"gamma": 0.5}, "beta": 3.0},
            "train": {"output_dir": "runs/x"},
        }
    )
    first, second = runs_of(recipe)
    assert first["objective"] == {"name": "simpo", "gamma": 0.5, "beta": 3.0}
    assert second["objective"] == {"name": "gapo", "beta": 3.0}
    assert (first["train"]["output_dir"], second["train"]["output_dir"]) == ("runs/x/simpo", "runs/x/gapo")


def test_a_resolved_recipe_reads_back_as_itself(tmp_path):
    import yaml

    one = runs_of(read_recipe("mini", ["objective.name=gapo", "train.output_dir=out"]))[0]
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(one))
    again = runs_of(read_recipe(str(path)))[0]
    assert again == one


def test_the_hash_sees_every_value_but_the_place():
    here, there = (read_recipe("mini", [f"train.output_dir={place}"]) for place in ("a", "b"))
    other = read_recipe("mini", ["noise.rate=0.3"])
    assert recipe_hash(here) == recipe_hash(there)
    assert recipe_hash(here) != recipe_hash(other)


def test_on_and_off_are_words_where_words_are_meant():
    for word in ("on", "off", "auto"):
        assert read_recipe("mini", [f"train.shared_prefix={word}"])["train"]["shared_prefix"] == word
