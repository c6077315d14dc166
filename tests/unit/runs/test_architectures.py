"""Published architectures: the parameters that were published, and what FSDP2 gathers together."""

import pytest
import torch

import tiny
from gapo.errors import InputError
from gapo.runs.architectures import ARCHITECTURES, architecture_of, config_of, weightless
from gapo.runs.recipe import read_recipe, recipe_names
from gapo.runs.sizes import Sizes, padded

PUBLISHED = {
    "mistral-7b": 7_241_732_096,
    "llama3-8b": 8_030_261_248,
    "gemma2-9b": 9_241_705_984,
    "pythia-2.8b": 2_775_208_960,
    "smollm2-135m": 134_515_008,
}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_model_built_from_published_sizes_has_the_published_parameters(name):
    model = weightless(ARCHITECTURES[name].made())
    sizes = Sizes.of(model)
    assert {p.device.type for p in model.parameters()} == {"meta"}
    assert sizes.parameters == sizes.trained == ARCHITECTURES[name].parameters == PUBLISHED[name]
    assert sum(unit.gathered() for unit in sizes.units) == sizes.parameters  # every parameter in one unit
    assert len(sizes.of_kind("block")) == sizes.layers == ARCHITECTURES[name].values["num_hidden_layers"]


def test_adapters_are_what_is_trained():
    """q and v of 32 layers: rank times (in + out)."""
    sizes = Sizes.of(weightless(ARCHITECTURES["llama3-8b"].made(), {"r": 16, "target_modules": ["q_proj", "v_proj"]}))
    assert sizes.trained == sizes.linear_trained == 32 * 16 * ((4096 + 4096) + (4096 + 1024))
    assert not sizes.head_trained
    assert sum(unit.reduced() for unit in sizes.units) == sizes.trained


@pytest.mark.parametrize("name", sorted(tiny.MODELS))
def test_sizes_without_weights_are_those_of_the_model(name):
    model = tiny.MODELS[name](dtype=torch.float32)
    assert Sizes.of(weightless(model.config)) == Sizes.of(model)


def test_shards_are_filled_up_to_equal_parts():
    assert padded((61, 32), 4) == 64 * 32
    assert padded((64, 32), 4) == 64 * 32
    assert padded((5,), 2) == 6


@pytest.mark.parametrize("name", recipe_names())
def test_the_model_of_every_recipe_is_known_or_here(name):
    model = read_recipe(name)["model"]["name"]
    config, source = config_of(model)
    assert source == ("published sizes" if architecture_of(model) else "its own config")
    assert config.num_hidden_layers > 0


def test_a_model_out_of_reach_is_one_sentence():
    with pytest.raises(InputError, match="config of 'nobody/nothing' cannot be read"):
        config_of("nobody/nothing")
