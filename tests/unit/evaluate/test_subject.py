"""A model under evaluation: a folder, a run, adapters alone and adapters of a run compute what they should."""

import json

import pytest
import torch
import yaml
from peft import LoraConfig, get_peft_model

import gapo
from gapo.errors import InputError
from gapo.evaluate.subject import load_subject, same_tokens


@torch.no_grad()
def logits(model):
    return model.eval()(input_ids=torch.tensor([list(range(3, 40))])).logits


@pytest.fixture
def adapted(place):
    """Adapters that do something, in `adapters`, and the logits they should give."""
    torch.manual_seed(0)
    model = get_peft_model(gapo.load_policy("model").model, LoraConfig(r=2, target_modules=["q_proj", "v_proj"]))
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained("adapters")
    return logits(model)


def test_adapters_alone_stand_on_the_base_they_name(place, adapted):
    settings = json.loads((place / "adapters" / "adapter_config.json").read_text())
    settings["base_model_name_or_path"] = "model"
    (place / "adapters" / "adapter_config.json").write_text(json.dumps(settings))
    subject = load_subject("adapters")
    torch.testing.assert_close(logits(subject.model), adapted)
    assert (logits(subject.model) - logits(load_subject("model").model)).abs().max() > 1e-2


def test_adapters_of_a_run_stand_on_the_recipes_model(place, adapted):
    (place / "run").mkdir()
    (place / "adapters").rename(place / "run" / "model")
    lora = {"r": 2, "target_modules": ["q_proj", "v_proj"]}
    recipe = {"model": {"name": "model", "lora": lora, "merge": False}}
    (place / "run" / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    subject = load_subject("run")
    torch.testing.assert_close(logits(subject.model), adapted)
    assert subject.run is not None


def test_a_run_without_a_model_is_not_finished(place):
    (place / "run").mkdir()
    (place / "run" / "recipe.yaml").write_text("model: {name: model}\n")
    with pytest.raises(InputError, match="no model yet"):
        load_subject("run")


def test_tokenizers_are_compared_by_their_words(place):
    assert same_tokens(load_subject("model"), load_subject("other"))
    assert not same_tokens(load_subject("model"), load_subject("lab"))
