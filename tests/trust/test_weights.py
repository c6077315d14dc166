"""Weights are numbers: a pickle is refused, and the trap in it is not sprung, wherever a file of that kind is read."""

import os
import shutil

import pytest
import torch
import torch.distributed.checkpoint as dcp
from peft import LoraConfig
from torch.distributed.checkpoint.api import CheckpointException

from gapo.errors import InputError
from gapo.evaluate.answering_model import load_answering
from gapo.evaluate.subject import load_subject
from gapo.model.load import load_policy
from gapo.model.trust import words_of_trust
from gapo.runs.audit_model import load_audited
from gapo.storage import embedded
from gapo.training.checkpoints import seal
from gapo.training.shard_metadata import FORCE, only_weights, refuse_foreign_shards
from hostile import Trap, model_folder, trap_file
from runs_of_tests import trainer

SAVING = {"max_steps": 2, "save_strategy": "steps", "save_steps": 2, "dtype": torch.float32}


@pytest.fixture
def sprung(tmp_path):
    """The file that a trap makes; no test may end with it."""
    path = tmp_path / "sprung"
    yield path
    assert not path.exists()


@pytest.mark.parametrize(
    "name", ["pytorch_model.bin", "pytorch_model-00001-of-00002.bin", "model.pt", "consolidated.00.pth"]
)
def test_a_model_that_is_only_a_pickle_is_one_sentence_with_the_way_out(tmp_path, sprung, name):
    folder = model_folder(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    trap_file(folder / name, sprung)
    with pytest.raises(
        InputError, match=rf"only as a pickle \({name}\), which can run code.*convert it to safetensors"
    ):
        load_policy(str(folder))


def test_a_pickle_beside_other_safetensors_is_not_read_either(tmp_path, sprung):
    folder = model_folder(tmp_path / "model")
    (folder / "model.safetensors").rename(folder / "other.safetensors")
    trap_file(folder / "pytorch_model.bin", sprung)
    with pytest.raises(InputError, match="could not load the model"):
        load_policy(str(folder))


def test_a_pickle_beside_the_weights_is_left_alone(tmp_path, sprung):
    folder = model_folder(tmp_path / "model")
    for name in ("pytorch_model.bin", "training_args.bin"):
        trap_file(folder / name, sprung)
    assert load_policy(str(folder)).model.num_parameters() > 0


def test_a_hub_model_that_is_only_a_pickle_is_the_same_sentence():
    error = OSError(
        "a/b does not appear to have a file named model.safetensors and thus cannot be loaded with `safetensors`."
    )
    assert "convert it to safetensors" in words_of_trust("a/b", error, trusted=True)


@pytest.mark.parametrize(
    "load",
    [
        lambda folder: load_subject(str(folder)),
        lambda folder: load_answering(str(folder), say=lambda _: None),
        lambda folder: load_answering("lab", adapter=str(folder), say=lambda _: None),
        lambda folder: load_audited(str(folder), say=lambda _: None),
        lambda folder: load_audited("lab", str(folder), say=lambda _: None),
    ],
)
def test_adapters_that_are_only_a_pickle_are_refused(tmp_path, sprung, load):
    folder = tmp_path / "adapters"
    LoraConfig(r=2, base_model_name_or_path="lab", task_type="CAUSAL_LM").save_pretrained(str(folder))
    trap_file(folder / "adapter_model.bin", sprung)
    with pytest.raises(InputError, match=r"only as a pickle \(adapter_model\.bin\)"):
        load(folder)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    trainer(folder, **SAVING).train()
    return folder


def resume(saved, folder, change):
    """Go on from a checkpoint that somebody has changed, and sealed again."""
    shutil.copytree(saved, folder)
    checkpoint = folder / "checkpoints" / "checkpoint-2"
    change(checkpoint)
    seal(checkpoint)
    again = trainer(folder, **{**SAVING, "max_steps": 3})
    again.train(resume_from_checkpoint=True)
    return again


@pytest.mark.parametrize("name", ["optimizer.pt", "scheduler.pt", "rng_state.pth"])
def test_a_trap_in_the_state_of_a_checkpoint_is_not_sprung(saved, tmp_path, sprung, name):
    with pytest.raises(Exception, match=r"[Ww]eights.only"):
        resume(saved, tmp_path / "run", lambda checkpoint: trap_file(checkpoint / name, sprung))


def test_a_trap_in_the_place_of_a_checkpoints_weights_is_not_sprung(saved, tmp_path, sprung):
    def change(checkpoint):
        (checkpoint / "model.safetensors").unlink()
        trap_file(checkpoint / "pytorch_model.bin", sprung)

    with pytest.raises(Exception, match=r"[Ww]eights.only"):
        resume(saved, tmp_path / "run", change)


def test_the_arguments_in_a_checkpoint_are_never_read(saved, tmp_path, sprung):
    again = resume(saved, tmp_path / "run", lambda checkpoint: trap_file(checkpoint / "training_args.bin", sprung))
    assert again.state.global_step == 3


@pytest.fixture
def shards(tmp_path):
    """What torch writes of weights and an optimiser in shards, in one process."""
    layer = torch.nn.Linear(3, 3)
    optimizer = torch.optim.AdamW(layer.parameters())
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    state = {"model": layer.state_dict(), "optimizer": optimizer.state_dict(), "half": torch.zeros(2).bfloat16()}
    dcp.save(state, checkpoint_id=str(tmp_path / "checkpoint" / "shards"), no_dist=True)
    return tmp_path / "checkpoint"


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_metadata_of_shards_may_name_nothing_else(shards, sprung):
    refuse_foreign_shards(shards)
    import pickle

    (shards / "shards" / ".metadata").write_bytes(pickle.dumps(Trap(sprung)))
    with pytest.raises(InputError, match=r"something else than metadata of shards .*could be code"):
        refuse_foreign_shards(shards)
    hidden = b"\x80\x04\x8c\x25torch.distributed.checkpoint.metadata\x8c\x09os.system\x93\x8c\x04true\x85R."
    (shards / "shards" / ".metadata").write_bytes(hidden)  # a dotted name reaches what a module has imported
    with pytest.raises(InputError, match="something else"):
        refuse_foreign_shards(shards)


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_a_checkpoint_in_shards_with_foreign_metadata_is_not_resumed(saved, tmp_path, sprung):
    import pickle

    def change(checkpoint):
        (checkpoint / "pytorch_model_fsdp_0").mkdir()
        (checkpoint / "pytorch_model_fsdp_0" / ".metadata").write_bytes(pickle.dumps(Trap(sprung)))

    with pytest.raises(InputError, match="something else than metadata"):
        resume(saved, tmp_path / "run", change)


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_small_values_beside_the_shards_are_plain(tmp_path, sprung):
    """torch reads these with weights_only=False; a resume reads them otherwise."""
    dcp.save({"value": Trap(sprung)}, checkpoint_id=str(tmp_path / "shards"), no_dist=True)
    refuse_foreign_shards(tmp_path)  # the trap is not in the metadata
    with only_weights(), pytest.raises(CheckpointException, match="Weights only"):
        dcp.load({"value": 0}, checkpoint_id=str(tmp_path / "shards"), no_dist=True)
    assert FORCE not in os.environ


def test_what_ships_with_the_package_is_safetensors():
    names = [path.suffix for path in embedded().rglob("*") if path.is_file()]
    assert ".safetensors" in names
    assert not {".bin", ".pt", ".pth", ".pkl", ".npy", ".npz"} & set(names)
