"""Every recipe of the paper takes three real steps, with a tiny random model of the family it names."""

import json
import math

import pytest
import torch
import yaml
from transformers import AutoModelForCausalLM

import gapo
import tiny
from gapo.runs.architectures import architecture_of
from gapo.runs.recipe import read_recipe, recipe_folders, recipe_names, runs_of
from gapo.runs.run import execute
from runs_of_tests import text_rows

PAPER = [name for name in recipe_names() if "methods" in read_recipe(name)]
CASES = [(name, method) for name in PAPER for method in read_recipe(name)["methods"]]
SMALL = {
    "vocab_size": tiny.VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "query_pre_attn_scalar": 8,
    "pad_token_id": tiny.PAD,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
FAMILIES = {
    "mistral-7b-instruct": "MistralForCausalLM",
    "llama3-8b-base": "LlamaForCausalLM",
    "llama3-8b-instruct": "LlamaForCausalLM",
    "gemma2-9b-it": "Gemma2ForCausalLM",
    "pythia-2.8b-hh": "GPTNeoXForCausalLM",
}


def small_model(recipe, folder):
    """The published config, everything that makes it large made small; positions and caps stay."""
    architecture = architecture_of(recipe["model"]["name"])
    known = set(architecture.values) | {"pad_token_id", "bos_token_id", "eos_token_id"}
    config = architecture.made(**{key: value for key, value in SMALL.items() if key in known})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.save_pretrained(folder)
    template = tiny.CHAT if recipe["data"].get("template") == "chat" else None
    tiny.tiny_tokenizer(template).save_pretrained(folder)
    return type(model).__name__


@pytest.mark.parametrize(("name", "method"), CASES)
def test_three_real_steps(name, method, tmp_path):
    family = small_model(read_recipe(name), tmp_path / "start")
    assert family == FAMILIES[name]
    gapo.save_pairs(gapo.load_pairs(text_rows(20)), tmp_path / "pairs.jsonl")
    changes = {
        "model.name": tmp_path / "start",
        "data.train": tmp_path / "pairs.jsonl",
        "data.eval": tmp_path / "pairs.jsonl",
        "data.eval_limit": 2,
        "objective.name": method,
        "train.output_dir": tmp_path / "run",
        "train.max_steps": 3,
        "train.use_cpu": "true",
        "train.disable_tqdm": "true",
        "train.drift_pairs": 2,
        "train.reply_prompts": 0,
        "train.cache_reference": "false",
    }
    recipe = read_recipe(name, [f"{key}={value}" for key, value in changes.items()])
    (one,) = runs_of(recipe)
    result = execute(one, command=["gapo", "train", name], say=lambda _: None)

    lines = [json.loads(line) for line in (tmp_path / "run" / "steps.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "loss" in line]
    assert [line["step"] for line in steps] == [1, 2, 3]
    assert all(math.isfinite(line["loss"]) for line in steps)
    written = yaml.safe_load((tmp_path / "run" / "recipe.yaml").read_text())
    assert written["train"]["learning_rate"] == float(line_of(name, method)["learning_rate"])
    assert written["train"]["gradient_checkpointing"] is True
    assert result.evals["steps"] == 3
    assert ("two_pass" in (result.evals["engine"] or "")) == (method == "gapo")
    before = AutoModelForCausalLM.from_pretrained(tmp_path / "start").state_dict()
    after = AutoModelForCausalLM.from_pretrained(tmp_path / "run" / "model").state_dict()
    assert any(not torch.equal(before[key], after[key]) for key in before)


def line_of(name, method):
    """The method's line as a reader of the file sees it."""
    paths = [folder / f"{name}.yaml" for folder in recipe_folders()]
    return yaml.safe_load(next(path for path in paths if path.is_file()).read_text())["methods"][method]
