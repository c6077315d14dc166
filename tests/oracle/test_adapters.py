"""Adapters against autograd and plain models, in float64 where a truth is asked for: gradients, reference, merging."""

import copy
import math

import pytest
import torch
from peft import IA3Config, LoraConfig, PeftModel, get_peft_model

import gapo
import literal
import tiny
from gapo.anchor import AnchorSettings
from gapo.anchor.banked import Bank, FirstOrder
from gapo.anchor.two_pass import TwoPass
from gapo.errors import InputError
from gapo.model.kept_low import as_before, keep_low
from gapo.model.load import with_lora
from gapo.model.policy import causal_lm, pair_logps
from gapo.model.reference import reference_logps, start_model
from gapo.objectives import get_objective
from gapo.pairs.collate import collate
from runs_of_tests import text_rows, trainer
from steps import step_gradient

RADIUS, BETA, GAMMA = 0.05, 2.5, 0.1
KINDS = {
    "lora": {"target_modules": ["q_proj", "v_proj", "down_proj"]},
    "rslora": {"target_modules": "all-linear", "use_rslora": True},
    "dora": {"target_modules": ["q_proj", "down_proj"], "use_dora": True},
    "lora_on_the_head": {"target_modules": ["q_proj", "lm_head"]},
    "lora_on_embeddings": {"target_modules": ["embed_tokens", "v_proj"]},
    "head_trained": {"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]},
    "embeddings_trained": {"target_modules": ["q_proj"], "modules_to_save": ["embed_tokens"]},
    "both_trained": {"target_modules": ["q_proj"], "modules_to_save": ["embed_tokens", "lm_head"]},
}
FOUR = 4


def adapted(settings, *, tied=False, dtype=torch.float64, seed=0):
    """A model whose adapters are somewhere, not at their start."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = LoraConfig(r=3, lora_alpha=6, init_lora_weights=False, task_type="CAUSAL_LM", **settings)
        model = get_peft_model(tiny.llama(tied=tied, dtype=dtype), config)
        if dtype == torch.float64:
            model = model.double()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.requires_grad:
                    parameter += 0.05 * torch.randn_like(parameter)
    if dtype == torch.float64:
        tiny.keep_double(model)
    return model


def trained_of(model):
    return [p for p in model.parameters() if p.requires_grad]


def margin_gradients(model, pairs):
    """One autograd a pair, through full logits."""
    trained = trained_of(model)
    options = {"allow_unused": True, "materialize_grads": True}
    return [torch.autograd.grad(literal.margin(model, pair), trained, **options) for pair in pairs]


# ---- gradients and gaps ----


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("name", KINDS)
def test_the_bank_of_an_adapted_model_holds_each_pairs_own_gradient(name, tied):
    """DoRA's magnitudes too: where a layer is not known pair by pair, each pair has a backward of its own."""
    pairs = tiny.random_pairs(FOUR, seed=1)
    model = adapted(KINDS[name], tied=tied)
    found = Bank(AnchorSettings(engine="bank", radius=RADIUS)).anchors(model, [collate(pairs, tiny.PAD, shared=True)])
    for i, own in enumerate(margin_gradients(model, pairs)):
        for ours, theirs in zip(found.bank.own(i, found.bank.parameters), own, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10)
    if name == "dora":
        magnitudes = [n for n, p in model.named_parameters() if p.requires_grad and "magnitude" in n]
        assert len(magnitudes) == 4


@pytest.mark.parametrize("engine", ["two_pass", "bank"])
@pytest.mark.parametrize("name", ["lora", "dora", "both_trained"])
def test_gap_and_gradient_are_those_of_the_paper_over_what_is_trained(name, engine):
    pairs = tiny.random_pairs(FOUR, seed=2)
    model = adapted(KINDS[name])
    own = margin_gradients(model, pairs)
    mean = [sum(parts) / FOUR for parts in zip(*own, strict=True)]
    anchor = copy.deepcopy(model)
    length = literal.norm(mean)
    with torch.no_grad():
        for parameter, part in zip(trained_of(anchor), mean, strict=True):
            parameter -= RADIUS * part / length
        gaps = torch.stack([literal.margin(model, p) - literal.margin(anchor, p) for p in pairs])
    weights = BETA * torch.sigmoid(GAMMA - BETA * gaps)
    wanted = [-sum(w * part for w, part in zip(weights, parts, strict=True)) / FOUR for parts in zip(*own, strict=True)]
    objective = get_objective("gapo", beta=BETA, gamma=GAMMA)
    batches = [collate(pairs[:3], tiny.PAD, shared=True), collate(pairs[3:], tiny.PAD, shared=True)]
    _, gradient, parts = step_gradient(model, objective, AnchorSettings(radius=RADIUS, engine=engine), batches)
    torch.testing.assert_close(torch.cat([part.gap for part in parts]), gaps, rtol=1e-9, atol=1e-10)
    gradient = [g for g in gradient if g is not None]
    for ours, theirs in zip(gradient, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", ["lora", "dora"])
def test_first_order_tends_to_exact_with_lora_and_stays_off_with_dora(name):
    """DoRA's paper (section 4.3) takes the weight's norm for a constant, and peft does: what it hands to the optimiser
    is not the gradient of the margin. Engines that go to the anchor measure the gap as it is; a first-order one is off
    by a share that no smaller radius takes away.
    """
    model = adapted(KINDS[name])
    batches = [collate(tiny.random_pairs(FOUR, seed=6), tiny.PAD, shared=True)]
    errors = []
    for radius in (1e-3, 1e-4, 1e-5):
        settings = AnchorSettings(radius=radius)
        exact = TwoPass(settings).anchors(model, batches, step=2).gap
        first = FirstOrder(settings).anchors(model, batches, step=2).gap
        errors.append(float((exact - first).abs().max() / exact.abs().max()))
    if name == "lora":
        assert errors[2] < 1e-4
        assert errors[1] == pytest.approx(errors[0] / 10, rel=0.5)
    else:
        assert errors[2] > 1e-3
        assert errors[2] == pytest.approx(errors[1], rel=0.05)


def test_an_embedding_whose_output_asks_for_a_gradient_loses_none():
    """peft and transformers set this for checkpointing; then no adapter is the first layer with a gradient."""
    pairs = tiny.random_pairs(FOUR, seed=3)
    batches = [collate(pairs, tiny.PAD)]
    settings = AnchorSettings(engine="bank")
    plain = Bank(settings).anchors(adapted(KINDS["lora"]), batches)
    model = adapted(KINDS["lora"])
    model.enable_input_require_grads()
    engine = Bank(settings)
    found = engine.anchors(model, batches)
    assert engine._at_once > 1
    for i in range(FOUR):
        for ours, theirs in zip(*(probe.bank.own(i, probe.bank.parameters) for probe in (found, plain)), strict=True):
            assert torch.equal(ours, theirs)


# ---- the reference ----


@pytest.mark.parametrize("name", KINDS)
def test_with_adapters_off_the_reference_is_the_base_model_bit_for_bit(name):
    pairs = tiny.random_pairs(6, seed=4)
    base = tiny.llama()
    wanted = reference_logps(base, pairs, tiny.PAD, cache=False)
    model = adapted(KINDS[name])
    found = reference_logps(model, pairs, tiny.PAD, cache=False)
    assert torch.equal(found.chosen, wanted.chosen)
    assert torch.equal(found.rejected, wanted.rejected)
    moved = pair_logps(model, collate(pairs, tiny.PAD))
    assert not torch.allclose(moved.chosen.detach(), wanted.chosen, atol=1e-3)  # and adapters were on before and after


def test_an_adapter_that_arrives_trained_is_compared_with_its_base(tmp_path):
    """The reference is the model with its adapter off, whatever the adapter has learned before. Who wants the model as
    it arrives for a reference merges it first, or gives ref_model.
    """
    first = trainer(
        tmp_path / "1", objective="dpo", extra_peft_config=LoraConfig(**KINDS["lora"], task_type="CAUSAL_LM")
    )
    first.train()
    first.save_model(str(tmp_path / "adapter"))
    base = tiny.llama()
    arrived = PeftModel.from_pretrained(tiny.llama(), tmp_path / "adapter", is_trainable=True).double()
    run = trainer(tmp_path / "2", objective="dpo", model=arrived, max_steps=1)
    run.train()
    wanted = reference_logps(base, run.train_dataset.encoded, run.pad_id, cache=False, shared=run.layout.shared)
    assert torch.equal(run.plan.reference.chosen, wanted.chosen)
    with start_model(run.model):
        off = literal.margin(run.model, run.train_dataset.encoded[0])
    assert float(off) == pytest.approx(float(literal.margin(base, run.train_dataset.encoded[0])), abs=1e-9)


def test_what_adapters_do_not_undo_is_no_reference(tmp_path):
    """Biases of the base that train (LoRA's bias=all) stay moved with the adapters off."""
    config = LoraConfig(target_modules=["query_key_value"], bias="all", task_type="CAUSAL_LM")
    run = trainer(tmp_path, objective="dpo", model=tiny.gpt_neox(), extra_peft_config=config, max_steps=1)
    run.train()
    with pytest.raises(InputError, match="give ref_model"):
        run.evaluate(text_rows(3, 11))


# ---- merging ----


@torch.no_grad()
def logits(model, seed=5):
    ids = torch.tensor([tiny.random_pairs(1, seed, prompt=(20, 20))[0].prompt])
    return model.eval()(input_ids=ids).logits


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("name", KINDS)
def test_merged_weights_say_what_the_adapters_said(name, tied, dtype, tmp_path):
    model = adapted(KINDS[name], tied=tied, dtype=dtype)
    wanted, base = logits(model), logits(tiny.llama(tied=tied, dtype=dtype))
    whole = gapo.merged(model)
    if dtype == torch.float64:
        tiny.keep_double(whole)
    tolerance = 1e-10 if dtype == torch.float64 else 1e-5
    assert not isinstance(whole, PeftModel)
    assert {p.dtype for p in whole.parameters()} == {dtype}
    torch.testing.assert_close(logits(whole), wanted, rtol=tolerance, atol=tolerance)
    assert torch.equal(logits(model), wanted)  # the model itself is as it was
    assert float((wanted - base).abs().max()) > 1e-2
    if dtype == torch.float32:
        gapo.save_merged(model, tmp_path, tiny.tiny_tokenizer())
        torch.testing.assert_close(logits(gapo.load_policy(str(tmp_path)).model), wanted, rtol=1e-5, atol=1e-5)


def test_other_adapters_merge_too():
    config = IA3Config(task_type="CAUSAL_LM", target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"])
    model = get_peft_model(tiny.llama(dtype=torch.float32), config)
    with torch.no_grad():
        for parameter in trained_of(model):
            parameter *= 1.3
    torch.testing.assert_close(logits(gapo.merged(model)), logits(model), rtol=1e-5, atol=1e-5)


def test_there_must_be_something_to_merge(llama):
    with pytest.raises(InputError, match="no adapters to merge"):
        gapo.merged(llama)


# ---- a base stored in bf16 ----


def low_and_high(settings, build=tiny.llama):
    """A bf16 base under fp32 adapters, and the same numbers stored in fp32."""
    low = build(dtype=torch.bfloat16)
    high = copy.deepcopy(low).float()
    models = []
    for model in (low, high):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            models.append(with_lora(model, {"r": 3, "lora_alpha": 6, "init_lora_weights": False, **settings}))
    with torch.no_grad():  # peft draws adapters in the base's type, so the low ones are rounded
        for ours, theirs in zip(*map(trained_of, models), strict=True):
            ours[:] = theirs
    return models


@pytest.mark.parametrize("name", ["lora", "dora", "lora_on_the_head", "both_trained"])
@pytest.mark.parametrize("engine", ["two_pass", "bank"])
def test_a_bf16_base_gives_the_step_of_the_same_weights_in_fp32(name, engine):
    low, high = low_and_high(KINDS[name])
    assert {p.dtype for p in trained_of(low)} == {torch.float32}
    assert causal_lm(low).model.layers[0].mlp.up_proj.weight.dtype == torch.bfloat16
    batches = [collate(tiny.random_pairs(FOUR, seed=7), tiny.PAD, shared=True)]
    settings = AnchorSettings(radius=RADIUS, engine=engine)
    found = [step_gradient(model.train(), get_objective("gapo"), settings, batches) for model in (low, high)]
    gaps = [torch.cat([part.gap for part in parts]) for _, _, parts in found]
    torch.testing.assert_close(*gaps, rtol=1e-3, atol=1e-5)
    for ours, theirs in zip(*([g for g in gradient if g is not None] for _, gradient, _ in found), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("build", [tiny.gpt_neox, tiny.gemma2, tiny.qwen2])
def test_other_architectures_keep_their_base_low_too(build):
    targets = {"target_modules": ["query_key_value"] if build is tiny.gpt_neox else ["q_proj"]}
    low, high = low_and_high(targets, build)
    batch = collate(tiny.random_pairs(FOUR, seed=7), tiny.PAD)
    ours, theirs = (pair_logps(model, batch).detach() for model in (low, high))
    near = 2e-2 if build is tiny.gemma2 else 1e-5  # Gemma scales its embeddings in the type they are stored in
    torch.testing.assert_close(ours.margin, theirs.margin, rtol=near, atol=near)


def test_with_a_bf16_base_the_gap_is_that_of_its_gradient():
    """What `keep_low` is for: in bf16 activations the self-check ratio leaves 1."""
    low, _ = low_and_high(KINDS["lora"])
    batches = [collate(tiny.random_pairs(FOUR, seed=8), tiny.PAD)]
    settings = AnchorSettings(radius=2e-3)
    assert TwoPass(settings).anchors(low, batches).ratio == pytest.approx(1, abs=0.02)
    as_before(low)
    low.bfloat16()
    for parameter in trained_of(low):
        parameter.data = parameter.data.float()
    assert abs(TwoPass(settings).anchors(low, batches).ratio - 1) > 0.05
    assert keep_low(low)
    assert TwoPass(settings).anchors(low, batches).ratio == pytest.approx(1, abs=0.02)


def test_dora_on_a_bf16_base_starts_at_that_base():
    low = tiny.llama(dtype=torch.bfloat16)
    wanted = logits(copy.deepcopy(low).float())
    model = with_lora(low, {"r": 3, **KINDS["dora"]})
    torch.testing.assert_close(logits(model), wanted, rtol=1e-5, atol=1e-5)


def test_the_graph_of_a_bf16_base_keeps_no_copy_in_fp32():
    """Every layer's weight cast to fp32 and kept for backward would be the whole model in fp32."""
    low, _ = low_and_high(KINDS["lora"])
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        pair_logps(low, collate(tiny.random_pairs(2), tiny.PAD))
    shape = causal_lm(low).model.layers[0].mlp.up_proj.weight.shape
    weights = [t for t in kept if t.shape in (shape, shape[::-1])]
    assert weights
    assert {t.dtype for t in weights} == {torch.bfloat16}


def test_a_bf16_base_is_merged_in_fp32():
    low, _ = low_and_high(KINDS["lora"])
    whole = gapo.merged(low)
    assert {p.dtype for p in whole.parameters()} == {torch.float32}
    torch.testing.assert_close(logits(whole), logits(low), rtol=1e-5, atol=1e-5)


def test_in_mixed_precision_a_bf16_base_trains_its_adapters(tmp_path):
    low = tiny.llama(dtype=torch.bfloat16)
    lora = LoraConfig(**KINDS["lora"], lora_dropout=0.5, task_type="CAUSAL_LM")
    run = trainer(tmp_path, model=low, extra_peft_config=lora, precision="mixed", learning_rate=1e-2)
    before = [p.detach().clone() for p in trained_of(run.model)]
    frozen = {n: p.clone() for n, p in run.model.named_parameters() if not p.requires_grad}
    run.train()
    assert {p.dtype for p in trained_of(run.model)} == {torch.float32}
    assert not any(torch.equal(p, old) for p, old in zip(trained_of(run.model), before, strict=True))
    assert all(torch.equal(p, frozen[n]) for n, p in run.model.named_parameters() if not p.requires_grad)
    assert not [m for m in run.model.modules() if isinstance(m, torch.nn.Dropout) and m.p > 0]
    assert lora.lora_dropout == 0.5  # the caller's config is the caller's


def test_adapters_that_arrive_in_bf16_are_put_into_fp32(tmp_path):
    model = get_peft_model(tiny.llama(dtype=torch.bfloat16), LoraConfig(**KINDS["lora"]), autocast_adapter_dtype=False)
    assert {p.dtype for p in trained_of(model)} == {torch.bfloat16}
    run = trainer(tmp_path, model=model, max_steps=1)
    run.train()
    assert {p.dtype for p in trained_of(run.model)} == {torch.float32}


# ---- a base in 4 bits ----


def test_four_bits_train_merge_and_keep_the_gap(tmp_path):
    pytest.importorskip("bitsandbytes")
    tiny.llama(dtype=torch.float32, hidden_size=64, intermediate_size=64).save_pretrained(tmp_path / "m")
    tiny.tiny_tokenizer().save_pretrained(tmp_path / "m")
    policy = gapo.load_policy(str(tmp_path / "m"), lora={"r": 4, **KINDS["lora"]}, quantization="4bit", say=str)
    layer = causal_lm(policy.model).model.layers[0].mlp.up_proj
    assert layer.weight.dtype == torch.uint8
    run = trainer(tmp_path / "run", model=policy.model, tokenizer=policy.tokenizer, learning_rate=1e-2)
    run.train()
    assert {p.dtype for p in trained_of(run.model)} == {torch.float32}
    batches = [collate(run.train_dataset.encoded[:FOUR], run.pad_id, shared=True)]
    for engine in (TwoPass, Bank):
        ratio = engine(AnchorSettings(radius=1e-3)).anchors(run.model, batches).ratio
        assert math.isclose(ratio, 1, abs_tol=0.05)
    whole = gapo.merged(run.model)
    assert {p.dtype for p in whole.parameters()} == {torch.float32}
    torch.testing.assert_close(logits(whole), logits(run.model), rtol=1e-4, atol=1e-4)
