"""What will stop working stops a test first: as a warning (an error here, see pyproject) or as a line in a log."""

from __future__ import annotations

import logging
import re
import tomllib
import warnings
from pathlib import Path

import pytest
import torch
import transformers

from gapo.model.load import load_policy
from gapo.runs.recipe import preference_arguments, read_recipe, recipe_names, runs_of
from gapo.training.config import PreferenceConfig
from runs_of_tests import text_rows, trainer

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
LIBRARIES = ("transformers", "datasets", "peft", "accelerate", "huggingface_hub", "torch")
LEAVING = re.compile(r"deprecat|will be removed|no longer (?:be )?supported|(?:has been|is) renamed", re.IGNORECASE)


class Heard(logging.Handler):
    """Keeps every line."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.name}: {record.getMessage()}")


@pytest.fixture
def heard():
    """Lines of the libraries' own loggers, also of those that they say once in a process and have said before."""
    handler = Heard()
    transformers.logging.warning_once.cache_clear()
    before = {name: logging.getLogger(name).level for name in LIBRARIES}
    for name in LIBRARIES:
        logging.getLogger(name).addHandler(handler)
        logging.getLogger(name).setLevel(logging.WARNING)
    yield handler.lines
    for name, level in before.items():
        logging.getLogger(name).removeHandler(handler)
        logging.getLogger(name).setLevel(level)


def test_the_ear_hears(heard):
    transformers.utils.logging.get_logger("transformers.trainer").warning_once("`x` is deprecated, use `y`")
    assert any(map(LEAVING.search, heard))


def test_training_saving_loading_and_answering_use_nothing_that_is_leaving(heard, tmp_path):
    from peft import LoraConfig

    options = {"dtype": torch.float32, "max_steps": 2, "save_strategy": "steps", "save_steps": 1}
    options |= {"eval_strategy": "steps", "eval_steps": 1, "eval_rows": text_rows(4, seed=1), "reply_prompts": 1}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for objective, more in (("gapo", {}), ("dpo", {"extra_peft_config": LoraConfig(r=2, task_type="CAUSAL_LM")})):
            made = trainer(tmp_path / objective, objective=objective, **options, **more)
            made.train()
            made.save_model(str(tmp_path / objective / "model"))
        again = trainer(tmp_path / "gapo", **{**options, "max_steps": 3})
        again.train(resume_from_checkpoint=True)
        load_policy("lab", lora={"r": 2}, say=lambda _: None)
        assert again.replies(["hello there"])
    assert not [line for line in heard if LEAVING.search(line)]
    leaving = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)
    assert not [str(each.message) for each in warned if issubclass(each.category, leaving)]


@pytest.mark.parametrize("name", recipe_names())
def test_no_recipe_asks_for_what_is_leaving(heard, tmp_path, name):
    """A run hides warnings about its arguments from its user; here they show."""
    recipe = read_recipe(name, [f"train.output_dir={tmp_path}", "train.use_cpu=true"])
    PreferenceConfig(**preference_arguments(runs_of(recipe)[0]))
    assert not [line for line in heard if LEAVING.search(line)]


def test_a_deprecation_is_an_error_in_every_test():
    filters = PROJECT["tool"]["pytest"]["ini_options"]["filterwarnings"]
    assert {f"error::{kind}" for kind in ("DeprecationWarning", "PendingDeprecationWarning", "FutureWarning")} <= set(
        filters
    )
    for line in filters:
        if line.startswith("ignore"):
            _, message, _, *module = line.split(":")
            assert message or any(module), f"{line} lets everything pass"
    with pytest.raises(DeprecationWarning):
        warnings.warn("gone tomorrow", DeprecationWarning, stacklevel=1)
