"""Gradient checkpointing of either kind changes no engine's step: float64, against the same step without it."""

import pytest
import torch
from peft import LoraConfig, get_peft_model

import literal
import tiny
from gapo.anchor import AnchorSettings, banked
from gapo.anchor.fill import pairs_at_once
from gapo.model.recompute import recomputes
from gapo.objectives import get_objective
from gapo.pairs.collate import collate
from runs_of_tests import trainer, weights
from steps import step_gradient

KINDS = {"reentrant": True, "non_reentrant": False}
ENGINES = ("two_pass", "bank", "first_order", "streaming")
CLOSE = {"rtol": 1e-10, "atol": 1e-12}


def adapted(dora):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = LoraConfig(
            r=3, lora_alpha=6, target_modules=["q_proj", "down_proj"], init_lora_weights=False, use_dora=dora
        )
        model = get_peft_model(tiny.llama(), config).double()
    tiny.keep_double(model)
    return model


def shared_layers():
    """One layer used twice: under reentrant checkpointing its gradient comes in two parts."""
    model = tiny.llama()
    model.model.layers[1] = model.model.layers[0]
    model.config.use_cache = False  # both uses would write to one place
    return model


MODELS = {
    "llama": tiny.llama,
    "tied": tiny.llama_tied,
    "gpt_neox": tiny.gpt_neox,
    "shared_layers": shared_layers,
    "lora": lambda: adapted(False),
    "dora": lambda: adapted(True),
}


def checkpointed(model, reentrant):
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    assert recomputes(model)
    return model


def step(model, engine, shared, audit):
    """Gap and gradient of one step, and how often the first layer ran in it."""
    runs = []
    layers = next(module for module in model.modules() if hasattr(module, "layers")).layers
    handle = layers[0].register_forward_pre_hook(lambda *_: runs.append(1))
    pairs = tiny.random_pairs(5, seed=1)
    batches = [collate(pairs[:3], tiny.PAD, shared), collate(pairs[3:], tiny.PAD, shared)]
    settings = AnchorSettings(radius=0.05, engine=engine)
    _, gradient, parts = step_gradient(model.train(), get_objective("gapo"), settings, batches, step=1 if audit else 2)
    handle.remove()
    trained = [g for g, p in zip(gradient, model.parameters(), strict=False) if g is not None]
    return torch.cat([part.gap for part in parts]), torch.cat([g.flatten() for g in trained]), len(runs)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", MODELS)
def test_a_step_is_the_same_with_and_without(name, engine):
    for shared in (False, True) if name == "llama" else (True,):
        gap, gradient, runs = step(MODELS[name](), engine, shared, audit=False)
        assert float(gradient.abs().max()) > 0
        for reentrant in KINDS.values():
            found = step(checkpointed(MODELS[name](), reentrant), engine, shared, audit=False)
            torch.testing.assert_close(found[0], gap, **CLOSE)
            torch.testing.assert_close(found[1], gradient, **CLOSE)
            assert found[2] > runs  # layers did run again


@pytest.mark.parametrize("reentrant", KINDS.values(), ids=KINDS)
def test_an_audited_step_is_the_same_too(reentrant):
    gap, gradient, _ = step(tiny.llama(), "first_order", True, audit=True)
    found = step(checkpointed(tiny.llama(), reentrant), "first_order", True, audit=True)
    torch.testing.assert_close(found[0], gap, **CLOSE)
    torch.testing.assert_close(found[1], gradient, **CLOSE)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["llama", "tied", "lora"])
def test_where_the_passes_are_the_same_so_are_the_bits(name, engine, monkeypatch):
    """Two rows a pair and one pair a backward: both runs call the same kernels in the same order."""
    monkeypatch.setattr(banked, "pairs_at_once", lambda _: 1)
    plain = step(MODELS[name](), engine, False, audit=False)
    for reentrant in KINDS.values():
        found = step(checkpointed(MODELS[name](), reentrant), engine, False, audit=False)
        assert torch.equal(found[0], plain[0])
        assert torch.equal(found[1], plain[1])


@pytest.mark.parametrize("reentrant", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("name", ["llama", "tied", "shared_layers"])
def test_the_bank_holds_each_pairs_own_gradient(name, reentrant):
    """Against autograd of the literal margin: nothing is counted twice where layers run twice."""
    pairs = tiny.random_pairs(3, seed=2)
    plain = MODELS[name]()
    wanted = [torch.autograd.grad(literal.margin(plain, pair), list(plain.parameters())) for pair in pairs]
    model = checkpointed(MODELS[name](), reentrant).train()
    engine = banked.Bank(AnchorSettings(engine="bank"))
    bank = engine.anchors(model, [collate(pairs, tiny.PAD, shared=True)]).bank
    for i, own in enumerate(wanted):
        for ours, theirs in zip(bank.own(i, bank.parameters), own, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10)


def test_with_checkpointing_a_backward_serves_one_pair(llama):
    assert pairs_at_once(llama) > 1
    assert pairs_at_once(checkpointed(llama, False)) == 1


@pytest.mark.parametrize(
    "options", [{"sam_radius": 0.1}, {"objective": "simpo", "sam_radius": 0.1}, {"objective": "dpo"}]
)
def test_training_is_the_same_by_either_kind_with_sam_too(tmp_path, options):
    found = []
    for name, kind in {"none": None, **KINDS}.items():
        extra = {} if kind is None else {"gradient_checkpointing_kwargs": {"use_reentrant": kind}}
        run = trainer(
            tmp_path / name, optim="sgd", learning_rate=0.1, gradient_checkpointing=kind is not None, **extra, **options
        )
        run.train()
        assert recomputes(run.model) == (kind is not None)
        found.append(weights(run))
    assert not torch.equal(found[0], weights(trainer(tmp_path / "start")))
    torch.testing.assert_close(found[1], found[0], **CLOSE)
    torch.testing.assert_close(found[2], found[0], **CLOSE)
