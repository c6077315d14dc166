"""Code that comes with a model is run when somebody has asked for it, and by nobody else's word."""

import json

import pytest
import transformers
import yaml
from peft import LoraConfig
from typer.testing import CliRunner

from gapo.cli.main import app
from gapo.errors import InputError
from gapo.evaluate.subject import load_subject
from gapo.model.load import load_policy
from gapo.runs.architectures import config_of
from gapo.runs.recipe import read_recipe
from hostile import model_folder

CODE = """
from transformers import LlamaConfig, LlamaForCausalLM
open({ran!r}, "w").close()

class OwnConfig(LlamaConfig):
    model_type = "own-thing"

class OwnModel(LlamaForCausalLM):
    config_class = OwnConfig
"""


@pytest.fixture
def ran(tmp_path):
    return tmp_path / "ran"


@pytest.fixture
def own(tmp_path, ran, monkeypatch):
    """A model of a class that only its own file knows; the file notes that it was run."""
    modules = str(tmp_path / "modules")  # where transformers puts code it was allowed to run
    for module in (transformers.dynamic_module_utils, transformers.utils.hub):
        monkeypatch.setattr(module, "HF_MODULES_CACHE", modules, raising=False)
    folder = model_folder(tmp_path / "own")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "own-thing", "architectures": ["OwnModel"]}
    config["auto_map"] = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "own.py").write_text(CODE.format(ran=str(ran)))
    return folder


def test_by_default_it_is_refused_in_a_sentence_and_not_run(own, ran):
    with pytest.raises(InputError, match=r"needs Python code of its own.*model\.trust_remote_code=true"):
        load_policy(str(own))
    with pytest.raises(InputError, match="needs Python code of its own"):
        load_policy(str(own), trust_remote_code=False)
    assert not ran.exists()


def test_nobody_is_asked_at_the_terminal_either(own, ran, monkeypatch):
    """Where trust is not said, transformers asks on the terminal and runs the code after a y."""
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    with pytest.raises(InputError):
        config_of(str(own))
    with pytest.raises(InputError):
        load_policy(str(own))
    assert not ran.exists()


def test_asked_for_it_is_run(own, ran):
    model = load_policy(str(own), trust_remote_code=True).model
    assert type(model).__name__ == "OwnModel"
    assert ran.exists()


def test_the_recipe_of_somebody_elses_run_is_no_wish_of_mine(own, ran, tmp_path):
    run = tmp_path / "run"
    LoraConfig(r=2, base_model_name_or_path=str(own), task_type="CAUSAL_LM").save_pretrained(str(run / "model"))
    recipe = {"model": {"name": str(own), "lora": {"r": 2}, "trust_remote_code": True}}
    (run / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    with pytest.raises(InputError, match="--trust-remote-code"):
        load_subject(str(run), lambda _: None)
    assert not ran.exists()


@pytest.mark.parametrize(("asked", "passed"), [([], False), (["--trust-remote-code"], True)])
@pytest.mark.parametrize(
    ("command", "loader"),
    [
        (["eval", "reward", "M", "--data", "lab:test", "--limit", "2"], "gapo.evaluate.subject.load_subject"),
        (["eval", "drift", "M", "--against", "lab", "--data", "lab:test"], "gapo.evaluate.subject.load_subject"),
        (
            ["eval", "all", "M", "--against", "lab", "--data", "lab:test", "--limit", "2"],
            "gapo.runs.evals.load_subject",
        ),
        (["generate", "M", "--bench", "prompts.jsonl"], "gapo.evaluate.answering_model.load_policy"),
        (["audit", "lab", "--model", "M", "--limit", "4"], "gapo.runs.audit_model.load_subject"),
    ],
)
def test_every_command_passes_on_what_was_asked(monkeypatch, tmp_path, command, loader, asked, passed):
    seen = []

    def load(*_, trust_remote_code, **__):
        seen.append(trust_remote_code)
        raise InputError("seen")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(loader, load)
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "hello"}\n')
    result = CliRunner().invoke(app, [*command, *asked])
    assert str(result.exception) == "seen", result.output
    assert seen == [passed]


def test_a_recipe_asks_for_it_in_its_own_words():
    assert "trust_remote_code" not in read_recipe("mini")["model"]
    assert read_recipe("mini", ["model.trust_remote_code=true"])["model"]["trust_remote_code"] is True
    with pytest.raises(InputError, match="true or false"):
        read_recipe("mini", ["model.trust_remote_code=yes please"])
