"""Memory and time: terms by hand, activations against what autograd keeps."""

from dataclasses import replace

import pytest
import torch

import tiny
from gapo.model.policy import batch_hidden
from gapo.pairs.collate import collate
from gapo.runs.architectures import ARCHITECTURES, weightless
from gapo.runs.cost import Holding, block_entries, gpus_needed, memory, step_time
from gapo.runs.lengths import Lengths
from gapo.runs.machines import GPUS, SHARE_BF16, SHARE_FP32, SHARE_LINK
from gapo.runs.predict import Cut, predicted_step
from gapo.runs.sizes import Sizes

HOLDING = Holding(
    sharding="fsdp2",
    processes=8,
    engine="two_pass",
    pairs=16,
    bank_bytes=2,
    tokens=4096,
    width=4096,
    checkpointing=True,
    sync_each=True,
    accumulation=16,
)


@pytest.fixture(scope="module")
def llama8b():
    return Sizes.of(weightless(ARCHITECTURES["llama3-8b"].made()))


def test_shards_divide_what_is_trained(llama8b):
    terms = memory(llama8b, HOLDING).terms
    size = 4 * 8_030_261_248 / 8
    assert terms["weights"] == terms["gradients"] == terms["anchor (weights displaced)"] == size
    assert terms["Adam's moments"] == 2 * size
    whole = memory(llama8b, replace(HOLDING, sharding="ddp")).terms
    assert whole["weights"] == 8 * size == whole["buckets of DDP"]
    later = memory(llama8b, replace(HOLDING, sync_each=False)).terms
    assert later["whole gradients between micro-batches"] == 8 * size


def test_a_bank_holds_every_pair_of_the_step(llama8b):
    terms = memory(llama8b, replace(HOLDING, sharding="ddp", engine="bank")).terms
    assert terms["bank of pair gradients"] == 16 * 2 * 8_030_261_248
    assert "anchor (weights displaced)" not in terms


def test_the_fewest_gpus_that_suffice(llama8b):
    h100 = GPUS["h100-80gb"]
    needed = gpus_needed(llama8b, HOLDING, h100)
    assert memory(llama8b, replace(HOLDING, processes=needed)).fits(h100)
    assert not memory(llama8b, replace(HOLDING, processes=needed // 2)).fits(h100)
    huge = replace(HOLDING, tokens=10**7, checkpointing=False)
    assert gpus_needed(llama8b, huge, h100) is None


def kept_for_backward(model, batch):
    """Bytes of different storages that autograd keeps, parameters apart."""
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    storages, alive = {}, []

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            storages[storage.data_ptr()] = storage.nbytes()
            alive.append(tensor)  # or its address is used again
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        batch_hidden(model, batch)
    return sum(storages.values())


@pytest.mark.parametrize("name", ["llama", "mistral", "gemma2", "gpt_neox"])
def test_a_block_keeps_about_what_is_predicted(name):
    """Two layers more keep two blocks more. Never less than autograd keeps, and at most half as much again."""
    options = {"hidden_size": 128, "intermediate_size": 256, "max_position_embeddings": 512, "dtype": torch.float32}
    options |= {"mistral": {"window": None}, "gemma2": {}}.get(name, {})
    batch = collate(tiny.random_pairs(1, prompt=(60, 60), response=(30, 30)), tiny.PAD, True)
    models = [tiny.MODELS[name](num_hidden_layers=layers, **options).train() for layers in (2, 4)]
    few, many = (kept_for_backward(model, batch) for model in models)
    entries = (many - few) / 2 / batch.input_ids.numel() / 4
    predicted = block_entries(Sizes.of(models[0]), batch.input_ids.shape[1])
    assert 0.95 * entries <= predicted <= 1.5 * entries


def test_seconds_are_flops_over_an_assumed_rate():
    sizes = Sizes.of(tiny.llama(dtype=torch.float32))
    step = predicted_step(sizes, Cut([[Lengths(5, 3, 4)]]), mixed=True, sharding="ddp", processes=2)
    machine = GPUS["h100-80gb"]
    time = step_time(step, machine, mixed=True)
    assert time.gap == step.exact_flops / (67e12 * SHARE_FP32)
    assert time.gradients == (step.flops - step.exact_flops) / (989e12 * SHARE_BF16)
    assert time.sending == step.sent.total() / (450e9 * SHARE_LINK)
    assert step_time(step, machine, mixed=True, nodes=2).sending == step.sent.total() / (50e9 * SHARE_LINK)
    assert time.seconds == max(time.gap + time.gradients, time.sending)
