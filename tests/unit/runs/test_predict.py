"""Predicted FLOPs against torch's own counter, predicted bytes against the collectives that FSDP2 and DDP start."""

from collections import Counter

import pytest
import torch
import torch.distributed as dist

import tiny
from collectives import Collectives, as_one_of, flop_counter
from gapo.anchor.engines import choose_engine
from gapo.anchor.settings import AnchorSettings
from gapo.errors import InputError
from gapo.model import head
from gapo.model.load import with_lora
from gapo.model.passes import backward, batch_tokens, forward
from gapo.objectives import get_objective
from gapo.pairs.collate import collate
from gapo.runs import predict
from gapo.runs.lengths import lengths_of
from gapo.runs.predict import Cut, Flops, chunk_flops, predicted_step
from gapo.runs.sizes import Sizes
from steps import step_gradient

FAMILIES = ("llama", "llama_tied", "mistral", "gemma2", "gpt_neox")
MATH = {"attention": "eager"}  # torch counts no product inside a fused kernel


def made(name, **options):
    return tiny.MODELS[name](dtype=torch.float32, **({} if name == "gemma2" else MATH), **options).train()


def counted(run):
    with flop_counter() as counter:
        run()
    return counter.get_total_flops()


def cut_of(model, *batches, **options):
    return Cut([lengths_of(batch) for batch in batches], square=True, tokens=batch_tokens(model), **options)


@pytest.mark.parametrize("shared", [True, False], ids=["one row", "two rows"])
@pytest.mark.parametrize("checkpointing", [False, True], ids=["kept", "again"])
@pytest.mark.parametrize("name", FAMILIES)
def test_torch_counts_the_same_passes(name, checkpointing, shared):
    model = made(name)
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    pairs = tiny.random_pairs(5)
    batch = collate(pairs, tiny.PAD, shared)
    sizes, cut = Sizes.of(model), cut_of(model, pairs, shared=shared, checkpointing=checkpointing)
    for gradient, run in ((False, forward), (True, lambda m, b: backward(m, b, lambda logps, _: logps.margin.sum()))):
        expected = sum(chunk_flops(sizes, chunk, cut, gradient=gradient).total for chunk in cut.chunks("micro"))
        assert counted(lambda run=run: run(model, [batch])) == expected


@pytest.mark.parametrize("layers", [2, 6])
def test_adapters_are_counted_up_to_the_inputs_of_the_first_block(layers):
    """q, k and v of the first block have no gradient to hand on, and its keys need none: the same at every depth."""
    adapters = {"r": 4, "target_modules": ["q_proj", "v_proj"]}
    model, pairs = with_lora(made("llama", num_hidden_layers=layers), adapters).train(), tiny.random_pairs(5)
    sizes, cut, batch = Sizes.of(model), cut_of(model, pairs), collate(pairs, tiny.PAD, True)
    expected = [
        sum((chunk_flops(sizes, chunk, cut, gradient=gradient) for chunk in cut.chunks("micro")), Flops())
        for gradient in (False, True)
    ]
    assert counted(lambda: forward(model, [batch])) == expected[0].total
    too_much = expected[1].total - counted(lambda: backward(model, [batch], lambda logps, _: logps.margin.sum()))
    first = 2 * (32 * (32 + 16 + 16) + 2 * 4 * 32) * batch.input_ids.numel()  # by input: q, k, v and two adapters
    keys = expected[0].attention // layers // 2
    assert too_much == first + keys


def test_logits_beyond_a_chunk_are_made_again(monkeypatch):
    for module in (head, predict):
        monkeypatch.setattr(module, "CHUNK_ENTRIES", 3 * tiny.VOCABULARY)
    model, pairs = made("llama"), tiny.random_pairs(5)
    cut = cut_of(model, pairs)
    expected = sum(chunk_flops(Sizes.of(model), chunk, cut, gradient=True).total for chunk in cut.chunks("micro"))
    batch = collate(pairs, tiny.PAD, True)
    assert counted(lambda: backward(model, [batch], lambda logps, _: logps.margin.sum())) == expected


@pytest.mark.parametrize("engine", ["two_pass", "bank", "first_order", "streaming"])
def test_a_whole_step_costs_what_its_passes_cost(engine):
    """Step 2 is no audit; the bank is filled pair by pair, as it is for all but the smallest models."""
    model = made("llama")
    groups = [tiny.random_pairs(3, seed=seed) for seed in range(4)]
    settings = AnchorSettings(batches=2, engine=engine)
    chosen = choose_engine(settings, model, 12).engine(settings)
    if engine in ("bank", "first_order"):
        chosen._bank_of(model)
        chosen._at_once = 1
    if engine == "streaming":
        chosen.norm = 1.0  # known from the step before
    batches = [collate(pairs, tiny.PAD, True) for pairs in groups]
    objective = get_objective("gapo")
    found = counted(lambda: step_gradient(model, objective, settings, batches, engine=chosen, step=2))
    cut = cut_of(model, *groups, group=2)
    if engine in ("bank", "first_order"):  # sums over the bank are products too
        found -= bank_products(model, 12, anchors=2)
    assert found == predicted_step(Sizes.of(model), cut, engine=engine).flops


def bank_products(model, pairs, anchors):
    """The same sums over a bank, without the passes that fill it."""
    from gapo.anchor.bank import GradientBank

    bank = GradientBank(tuple(model.parameters()), None)
    bank.reserve(pairs)
    bank.put(torch.arange(pairs), [torch.zeros(pairs, *p.shape) for p in model.parameters()])
    size = pairs // anchors
    scope = tuple(model.parameters())

    def sums():
        for i in range(anchors):
            bank.sums(slice(i * size, (i + 1) * size), scope)
        bank.weighted(torch.ones(pairs))

    return counted(sums)


def test_simpo_takes_three_forwards_and_two_pass_seven():
    sizes, pairs = Sizes.of(made("llama")), lengths_of(tiny.random_pairs(4))
    cut = Cut([[pair] for pair in pairs], group=2, tokens=1)  # chunks of one pair: no padding
    one = sum(chunk_flops(sizes, [pair], cut, gradient=False).total for pair in pairs)

    def in_forwards(objective, engine="two_pass", **options):
        return predicted_step(sizes, cut, objective=objective, engine=engine, **options).flops / one

    assert in_forwards("simpo") == in_forwards("dpo") == 3
    assert in_forwards("gapo", "bank") == 4
    assert in_forwards("gapo", "first_order") == in_forwards("gapo", "streaming") == 3
    assert in_forwards("dr_dpo") == 4
    assert in_forwards("gapo") == 7
    mixed = predicted_step(sizes, cut, mixed=True)
    assert (mixed.flops, mixed.exact_flops) == (8 * one, 2 * one)


# ---- bytes ----


def sharded(model, processes):
    """Wrapped as accelerate's `fsdp2_prepare_model` does."""
    from accelerate.utils.fsdp_utils import _find_final_norm
    from torch.distributed.fsdp import fully_shard

    mesh = dist.device_mesh.init_device_mesh("cpu", (processes,))
    for block in [m for m in model.modules() if type(m).__name__ in model._no_split_modules]:
        fully_shard(block, mesh=mesh, reshard_after_forward=True)
    embedding, output = model.get_input_embeddings(), model.get_output_embeddings()
    tied = embedding.weight is output.weight
    if not tied:
        fully_shard(embedding, mesh=mesh, reshard_after_forward=True)
    tail = [_find_final_norm(model), *([embedding] if tied else []), output]
    fully_shard(tail, mesh=mesh, reshard_after_forward=False)
    fully_shard(model, mesh=mesh)
    return model


@pytest.mark.parametrize("checkpointing", [False, True], ids=["kept", "again"])
@pytest.mark.parametrize("processes", [2, 4])
@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt_neox"])
def test_fsdp2_gathers_and_scatters_the_bytes_predicted(name, processes, checkpointing):
    model = made(name)
    sizes, pairs = Sizes.of(model), tiny.random_pairs(1)
    cut = Cut([lengths_of(pairs)])
    expected = predicted_step(sizes, cut, objective="simpo", sharding="fsdp2", processes=processes)
    with as_one_of(processes):
        model = sharded(model, processes)
        if checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        with Collectives() as seen:
            model(torch.randint(3, tiny.VOCABULARY, (2, 7))).logits.sum().backward()
    assert seen.bytes == expected.traffic


def test_ddp_sums_the_bytes_predicted():
    model = made("llama_tied")
    expected = predicted_step(
        Sizes.of(model), Cut([lengths_of(tiny.random_pairs(1))]), objective="simpo", sharding="ddp", processes=2
    )
    seen = Counter()
    with as_one_of(2):
        wrapped = torch.nn.parallel.DistributedDataParallel(model)

        def hook(state, bucket):
            seen["all_reduce"] += bucket.buffer().numel() * bucket.buffer().element_size()
            future = torch.futures.Future()
            future.set_result(bucket.buffer())
            return future

        wrapped.register_comm_hook(None, hook)
        wrapped(torch.randint(3, tiny.VOCABULARY, (2, 7))).logits.sum().backward()
    assert seen == expected.traffic


def test_traffic_of_a_gapo_step_by_hand():
    """4 micro-batches of a pair, two anchors: chunks of one pair, so 4 for each of direction, anchor and step."""
    sizes = Sizes.of(made("llama"))
    cut = Cut([[pair] for pair in lengths_of(tiny.random_pairs(4))], group=2, tokens=1)
    size = 4 * sizes.parameters
    ddp = predicted_step(sizes, cut, sharding="ddp", processes=2)
    assert ddp.traffic == {"all_reduce": (2 + 1) * size}
    assert ddp.sent == {"all_reduce": 3 * size}  # 2 (n-1)/n = 1
    tail = 4 * sum(unit.gathered(2) for unit in sizes.of_kind("tail"))
    whole = 4 * sum(unit.gathered(2) for unit in sizes.units)
    fsdp = predicted_step(sizes, cut, sharding="fsdp2", processes=2)
    fetched_ahead = 2 * tail  # by the first backward after each anchor's forward
    assert fsdp.traffic["all_gather"] == 4 * (2 * whole - tail) + 4 * whole + 4 * (2 * whole - tail) + fetched_ahead
    assert fsdp.traffic["reduce_scatter"] == (2 + 1) * whole
    each = predicted_step(sizes, Cut(cut.micro_batches, 2, tokens=1, sync_each=True), sharding="fsdp2", processes=2)
    assert each.traffic["reduce_scatter"] == (4 + 4) * whole
    assert not predicted_step(sizes, cut).traffic


def test_a_bank_in_shards_is_refused():
    with pytest.raises(InputError, match="use two_pass"):
        predicted_step(
            Sizes.of(made("llama")), Cut([lengths_of(tiny.random_pairs(1))]), engine="bank", sharding="fsdp2"
        )
    with pytest.raises(InputError, match="unknown sharding 'fsdp3'; did you mean 'fsdp2'"):
        predicted_step(Sizes.of(made("llama")), Cut([lengths_of(tiny.random_pairs(1))]), sharding="fsdp3")
