"""`methods`: naming another objective brings its published settings along; the command line wins."""

import re

import pytest

from gapo.errors import InputError
from gapo.runs.recipe import preference_arguments, read_recipe, runs_of

# learning rate, beta and gamma (absolute) of the paper's table and of SimPO's own
PUBLISHED = {
    "mistral-7b-instruct": {"gapo": (5e-7, 2.5, 0.1), "simpo": (5e-7, 2.5, 0.25), "dpo": (5e-7, 0.01, None)},
    "llama3-8b-base": {"gapo": (6e-7, 2.0, 0.5), "simpo": (6e-7, 2.0, 1.0), "dpo": (5e-7, 0.01, None)},
    "llama3-8b-instruct": {"gapo": (1e-6, 2.5, 0.55), "simpo": (1e-6, 2.5, 1.375), "dpo": (7e-7, 0.01, None)},
    "gemma2-9b-it": {"gapo": (8e-7, 10, 0.5), "simpo": (8e-7, 10, 5.0), "dpo": (5e-7, 0.01, None)},
}
CASES = [(recipe, method) for recipe, methods in PUBLISHED.items() for method in methods]


def one_run(name, *overrides):
    return runs_of(read_recipe(name, ["train.output_dir=out", *overrides]))[0]


@pytest.mark.parametrize(("recipe", "method"), CASES)
def test_a_method_comes_with_its_published_settings(recipe, method):
    from gapo.objectives import get_objective

    arguments = preference_arguments(one_run(recipe, f"objective.name={method}"))
    knobs = get_objective(method, **arguments["knobs"]).settings
    rate, beta, gamma = PUBLISHED[recipe][method]
    assert arguments["learning_rate"] == rate
    assert knobs["beta"] == beta
    assert knobs.get("gamma") == (pytest.approx(gamma) if gamma is not None else None)
    assert (arguments["max_length"], arguments["lr_scheduler_type"], arguments["warmup_steps"]) == (2048, "cosine", 0.1)
    assert (arguments["anchor_radius"], arguments["anchor_batches"], arguments["num_train_epochs"]) == (0.05, 8, 1)


def test_several_methods_have_their_own_rates():
    runs = runs_of(read_recipe("llama3-8b-instruct", ["train.output_dir=out", "objective.name=[gapo,simpo,dpo]"]))
    assert [run["train"]["learning_rate"] for run in runs] == [1e-6, 1e-6, 7e-7]
    assert all("methods" not in run and "about" not in run for run in runs)


def test_the_command_line_wins():
    assert one_run("llama3-8b-instruct", "train.learning_rate=3e-6")["train"]["learning_rate"] == 3e-6
    assert one_run("llama3-8b-instruct", "objective.beta=9")["objective"]["beta"] == 9
    run = one_run("llama3-8b-instruct", "objective.name=simpo", "objective.gamma=0.3")
    assert run["objective"] == {"name": "simpo", "beta": 2.5, "gamma": 0.3}
    run = one_run("llama3-8b-instruct", "objective.name=simpo", "objective.simpo.gamma=0.3")
    assert run["objective"] == {"name": "simpo", "beta": 2.5, "gamma": 0.3}
    run = one_run("llama3-8b-instruct", "methods.dpo.beta=0.2", "methods.dpo.learning_rate=1e-5", "objective.name=dpo")
    assert (run["objective"]["beta"], run["train"]["learning_rate"]) == (0.2, 1e-5)


def test_a_run_written_down_reads_back_as_itself(tmp_path):
    import yaml

    one = one_run("mistral-7b-instruct", "objective.name=simpo")
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(one))
    assert runs_of(read_recipe(str(path)))[0] == one


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("methods: 3\n", "section 'methods' must hold objectives"),
        ("methods:\n  dpoo: {beta: 1}\n", "unknown objective 'methods.dpoo'; did you mean"),
        ("methods:\n  dpo: 3\n", "methods.dpo must hold keys"),
        (
            "methods:\n  dpo: {learning_rat: 1}\n",
            "unknown key 'methods.dpo.learning_rat'; did you mean 'learning_rate'",
        ),
        ("methods:\n  dpo: {learning_rate: fast}\n", "train.learning_rate must be a number"),
        ("methods:\n  dpo: {beta: -1}\n", "'beta' must be greater than 0"),
        ("about: 3\n", "section 'about' must hold keys"),
        ("about: {gpu: h100-80gb, gpuss: 8}\n", "unknown key 'about.gpuss'; did you mean 'gpus'"),
        ("about: {gpus: 0}\n", "about.gpus must be a whole number of at least 1"),
        ("about: {gpus: 8}\n", "about.sharding must be ddp or fsdp2 on 8 GPUs"),
        ("about: {gpus: 9, nodes: 2, sharding: ddp}\n", "9 cannot be spread evenly over 2 nodes"),
        ("about: {sharding: zero}\n", "about.sharding must be one of none, ddp, fsdp2"),
        ("about: {hours: 3}\n", "about.hours must be hours by objective"),
    ],
)
def test_what_is_wrong_is_one_sentence(text, words, tmp_path):
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=re.escape(words)):
        read_recipe(str(path))
