"""Every engine, on every architecture and both layouts of rows, against the literal two-row oracle in float64."""

import gc
import weakref

import pytest
import torch
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

import literal
import tiny
from gapo.anchor import AnchorSettings, banked, forwards, probe
from gapo.anchor import bank as bank_module
from gapo.anchor.banked import Bank, FirstOrder
from gapo.anchor.engines import ENGINES, choose_engine
from gapo.anchor.forwards import correlation
from gapo.anchor.two_pass import TwoPass
from gapo.errors import InputError
from gapo.objectives import depends_on_margin_alone, get_objective, objectives
from gapo.pairs.collate import collate
from gapo.training.step import StepPlan
from steps import step_gradient

RADIUS, BETA, GAMMA = 0.05, 2.5, 0.1
EXACT = ("two_pass", "bank")


def flat(gradient):
    return torch.cat([part.flatten() for part in gradient])


def own_gradients(model, pairs):
    return torch.stack([flat(torch.autograd.grad(literal.margin(model, p), list(model.parameters()))) for p in pairs])


def two_batches(pairs, shared=False):
    middle = len(pairs) // 2 + 1
    return [collate(pairs[:middle], tiny.PAD, shared), collate(pairs[middle:], tiny.PAD, shared)]


# ---- exact engines ----


@pytest.mark.parametrize("engine", [*EXACT, "bank, one pair at a time"])
@pytest.mark.parametrize("shared", [False, True], ids=["two_rows", "shared"])
def test_gap_weight_and_gradient_are_those_of_the_paper(any_model, engine, shared, monkeypatch):
    if engine not in EXACT:
        engine = "bank"
        monkeypatch.setattr(banked, "pairs_at_once", lambda _: 1)
    pairs = tiny.random_pairs(5, seed=1)
    objective = get_objective("gapo", beta=BETA, gamma=GAMMA)
    settings = AnchorSettings(radius=RADIUS, engine=engine)
    loss, gradient, prepared = step_gradient(any_model, objective, settings, two_batches(pairs, shared))
    truth = literal.loss(any_model, pairs, RADIUS, BETA, GAMMA)
    wanted = torch.autograd.grad(truth, list(any_model.parameters()))
    gaps = torch.stack(literal.gaps(any_model, pairs, RADIUS)).detach()
    assert torch.allclose(torch.cat([part.gap for part in prepared]), gaps, atol=1e-9)
    weights = torch.cat([part.known.weight for part in prepared])
    assert torch.allclose(weights, BETA * torch.sigmoid(GAMMA - BETA * gaps), atol=1e-9)
    assert loss == pytest.approx(truth.item(), abs=1e-9)
    for ours, theirs in zip(gradient, wanted, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-9)


@pytest.mark.parametrize("strategy", ["batch", "instance", "random"])
@pytest.mark.parametrize("scope", ["full", "lm_head", r"\.mlp\."])
def test_the_bank_equals_two_passes_for_every_strategy_and_scope(llama, strategy, scope):
    batches = two_batches(tiny.random_pairs(4, seed=2), shared=True)
    found = []
    for engine in EXACT:
        settings = AnchorSettings(radius=RADIUS, strategy=strategy, scope=scope, engine=engine, batches=1)
        _, gradient, prepared = step_gradient(llama, get_objective("gapo"), settings, batches, step=3)
        found.append((torch.cat([part.gap for part in prepared]), flat(gradient)))
    assert torch.allclose(found[0][0], found[1][0], atol=1e-10)
    assert torch.allclose(found[0][1], found[1][1], atol=1e-10)


@pytest.mark.parametrize("name", ["gradnorm", "length_only"])
def test_the_controls_have_the_same_step_by_either_engine(llama, name):
    batches = two_batches(tiny.random_pairs(4, seed=3), shared=True)
    one, other = (
        flat(step_gradient(llama, get_objective(name), AnchorSettings(engine=engine, batches=1), batches)[1])
        for engine in EXACT
    )
    assert torch.allclose(one, other, atol=1e-10)


def test_frozen_parameters_stay_out_of_the_bank(llama):
    llama.model.embed_tokens.weight.requires_grad_(False)
    batches = two_batches(tiny.random_pairs(4), shared=True)
    found = []
    for engine in EXACT:
        _, gradient, _ = step_gradient(llama, get_objective("gapo"), AnchorSettings(engine=engine), batches)
        found.append(flat([g for g in gradient if g is not None]))
    assert torch.allclose(*found, atol=1e-10)


def test_a_parameter_the_margin_does_not_move_has_gradient_zero(llama):
    llama.register_parameter("idle", torch.nn.Parameter(torch.ones(3, dtype=torch.float64)))
    settings = AnchorSettings(engine="bank")
    engine, batches = Bank(settings), two_batches(tiny.random_pairs(3))
    for _ in range(2):  # also in a bank that was used before
        _, gradient, _ = step_gradient(llama, get_objective("gapo"), settings, batches, engine)
    idle = [p is llama.idle for p in llama.parameters()].index(True)
    assert torch.equal(gradient[idle], torch.zeros(3, dtype=torch.float64))


def test_a_bank_in_bf16_is_right_to_the_rounding_of_each_gradient(any_model):
    """bf16 keeps 8 bits: an entry is off by at most 2^-9 of itself, so the step's gradient by 2^-9 of sum |c_i G_i|."""
    pairs = tiny.random_pairs(6, seed=4)
    batches = two_batches(pairs, shared=True)
    objective, settings = get_objective("gapo"), AnchorSettings(radius=RADIUS, engine="bank", bank_dtype="bf16")
    _, gradient, prepared = step_gradient(any_model, objective, settings, batches)
    _, exact, exactly = step_gradient(any_model, objective, AnchorSettings(radius=RADIUS, engine="bank"), batches)
    gap, exact_gap = (torch.cat([part.gap for part in parts]) for parts in (prepared, exactly))
    assert torch.allclose(gap, exact_gap, rtol=2e-3, atol=2e-3 * float(exact_gap.abs().mean()))
    cosine = torch.nn.functional.cosine_similarity(flat(gradient).double(), flat(exact), dim=0)
    assert cosine > 1 - 1e-5
    weights = torch.cat([part.known.weight for part in exactly])
    size = (weights[:, None] / len(pairs) * own_gradients(any_model, pairs).abs()).sum(0)
    assert bool(((flat(gradient) - flat(exact)).abs() <= 2**-8 * size + 1e-4 * size.max()).all())


# ---- the bank itself ----


@examples(max_examples=30, deadline=None)
@given(
    pairs=st.integers(1, 6),
    shapes=st.lists(st.sampled_from([(3,), (2, 5), (7, 3), (1,)]), min_size=1, max_size=4),
    entries=st.sampled_from([1, 8, 2**19]),
    seed=st.integers(0, 99),
)
def test_sums_over_blocks_are_sums(pairs, shapes, entries, seed):
    draw = torch.Generator().manual_seed(seed)
    parameters = [torch.nn.Parameter(torch.zeros(shape, dtype=torch.float64)) for shape in shapes]
    gradients = [torch.randn(pairs, *shape, generator=draw, dtype=torch.float64) for shape in shapes]
    whole = torch.cat([g.flatten(1) for g in gradients], dim=1)
    coefficients = torch.randn(pairs, generator=draw, dtype=torch.float64)
    bank = bank_module.GradientBank(parameters)
    before, bank_module.BLOCK_ENTRIES["cpu"] = bank_module.BLOCK_ENTRIES["cpu"], entries
    try:
        bank.reserve(pairs)
        bank.put(torch.arange(pairs), gradients)
        sums = bank.sums(slice(0, pairs), parameters)
        weighted = flat(bank.weighted(coefficients))
        cosine = bank.cosine(coefficients, torch.ones(pairs))
    finally:
        bank_module.BLOCK_ENTRIES["cpu"] = before
    g = whole.mean(0)
    assert torch.allclose(flat(sums.gradient), g)
    assert sums.norm == pytest.approx(float(g.norm()))
    assert torch.allclose(sums.norms, whole.norm(dim=1))
    assert torch.allclose(sums.dots, whole @ g)
    assert torch.allclose(weighted, coefficients @ whole)
    truth = torch.nn.functional.cosine_similarity(coefficients @ whole, whole.sum(0), dim=0)
    assert cosine == pytest.approx(float(truth), abs=1e-9)


def test_geometry_splits_the_first_order_gap_into_own_share_and_the_others(llama):
    pairs = tiny.random_pairs(4, seed=5)
    gradients = own_gradients(llama, pairs)
    g = gradients.mean(0)
    found = probe(llama, two_batches(pairs), AnchorSettings(radius=RADIUS, engine="bank")).geometry
    assert torch.allclose(found.grad_norm, gradients.norm(dim=1))
    assert torch.allclose(found.alignment, gradients @ g / gradients.norm(dim=1) / g.norm())
    assert torch.allclose(found.gap_self, RADIUS * gradients.norm(dim=1) ** 2 / 4 / g.norm())
    others = (gradients.sum(0) - gradients) / 4
    assert torch.allclose(found.gap_others, RADIUS * (gradients * others).sum(1) / g.norm())


def test_memory_is_free_and_weights_are_home_after_an_exception(llama, monkeypatch):
    settings = AnchorSettings(engine="bank")
    engine = Bank(settings)
    batches = two_batches(tiny.random_pairs(4), shared=True)
    engine.anchors(llama, batches)
    tables = [weakref.ref(table) for table in engine._kept._tables]
    home = [p.detach().clone() for p in llama.parameters()]
    monkeypatch.setattr(forwards, "forward", lambda *_, **__: (_ for _ in ()).throw(RuntimeError("at the anchor")))
    with pytest.raises(RuntimeError, match="at the anchor"):
        engine.anchors(llama, batches)
    gc.collect()
    assert all(table() is None for table in tables)
    assert len(engine._kept) == 0
    assert all(torch.equal(p, h) for p, h in zip(llama.parameters(), home, strict=True))
    assert all(p.grad is None for p in llama.parameters())
    assert all(not p._post_accumulate_grad_hooks for p in llama.parameters())


def test_gradients_that_were_there_are_there_again(llama):
    marks = [torch.randn_like(p) for p in llama.parameters()]
    for parameter, mark in zip(llama.parameters(), marks, strict=True):
        parameter.grad = mark
    Bank(AnchorSettings(engine="bank")).anchors(llama, two_batches(tiny.random_pairs(3), shared=True))
    assert all(p.grad is mark for p, mark in zip(llama.parameters(), marks, strict=True))


# ---- first order ----


@pytest.mark.parametrize("strategy", ["batch", "instance", "random"])
def test_first_order_tends_to_exact_as_the_radius_goes_to_zero(llama, strategy):
    batches = two_batches(tiny.random_pairs(4, seed=6), shared=True)
    errors = []
    for radius in (1e-2, 1e-3, 1e-4):
        settings = AnchorSettings(radius=radius, strategy=strategy)
        exact = TwoPass(settings).anchors(llama, batches, step=2).gap
        first = FirstOrder(settings).anchors(llama, batches, step=2).gap
        errors.append(float((exact - first).abs().max() / exact.abs().max()))
    assert errors[2] < 1e-3
    assert errors[1] == pytest.approx(errors[0] / 10, rel=0.5)  # the error is the curvature's: linear in the radius
    assert errors[2] == pytest.approx(errors[1] / 10, rel=0.5)


def test_an_audit_takes_an_exact_step_and_reports_the_agreement(llama):
    batches = two_batches(tiny.random_pairs(6, seed=7), shared=True)
    rows = [torch.arange(len(b)) for b in batches]
    settings = AnchorSettings(radius=RADIUS, engine="first_order")
    plan = StepPlan(get_objective("gapo"), FirstOrder(settings))
    audited, plain = plan.prepare(llama, batches, rows, 51), plan.prepare(llama, batches, rows, 52)
    exact = TwoPass(settings).anchors(llama, batches).gap
    assert torch.allclose(torch.cat([part.gap for part in audited.parts]), exact, atol=1e-10)
    first = torch.cat([part.gap for part in plain.parts])
    assert audited.report.audit_correlation == pytest.approx(correlation(exact, first))
    one, other = flat(audited.gradient), flat(plain.gradient)
    assert audited.report.audit_cosine == pytest.approx(float(one @ other / one.norm() / other.norm()), abs=1e-9)
    assert plain.report.audit_cosine is None


# ---- streaming ----


def test_streaming_weighs_each_pair_by_its_own_share(llama):
    pairs = tiny.random_pairs(4, seed=8)
    gradients = own_gradients(llama, pairs)
    norm = float(gradients.mean(0).norm())
    settings = AnchorSettings(radius=RADIUS, engine="streaming")
    engine = ENGINES["streaming"](settings)
    objective = get_objective("gapo", beta=BETA, gamma=GAMMA)
    _, gradient, prepared = step_gradient(llama, objective, settings, two_batches(pairs), engine)
    share = RADIUS * gradients.norm(dim=1) ** 2 / 4 / norm
    weights = BETA * torch.sigmoid(GAMMA - BETA * share)
    assert torch.allclose(torch.cat([part.gap for part in prepared]), share)
    assert torch.allclose(flat(gradient), -(weights[:, None] * gradients).mean(0), atol=1e-10)
    again = ENGINES["streaming"](settings)
    again.load_state(engine.state())
    assert again.norm == engine.norm != norm


# ---- the choice ----


@given(st.integers(1, 64), st.integers(0, 10**9))
@examples(max_examples=50, deadline=None)
def test_auto_is_exact_and_takes_at_most_half_of_the_free_memory(pairs, free):
    model = torch.nn.Linear(100, 100)
    choice = choose_engine(AnchorSettings(), model, pairs, free=free)
    assert choice.name in EXACT
    if choice.name == "bank":
        size = 10_100 * pairs * (2 if choice.bank_dtype is torch.bfloat16 else 4)
        assert size <= free / 2
    assert "free" in choice.reason


def test_auto_prefers_the_weights_own_type_then_bf16_then_two_passes():
    model = torch.nn.Linear(100, 100, bias=False)  # 40 kB a gradient
    found = [choose_engine(AnchorSettings(), model, 10, free=free) for free in (1_200_000, 700_000, 400_000)]
    assert [(c.name, c.bank_dtype) for c in found] == [
        ("bank", None),
        ("bank", torch.bfloat16),
        ("two_pass", None),
    ]


def test_a_bank_is_refused_where_it_has_no_answer(llama):
    for engine in ("bank", "first_order", "streaming"):
        with pytest.raises(InputError, match="depends on more than the margin; use two_pass or auto"):
            choose_engine(AnchorSettings(engine=engine), llama, 4, bank_fits_loss=False)
        with pytest.raises(InputError, match="SAM"):
            choose_engine(AnchorSettings(engine=engine), llama, 4, displaced_step=True)
    assert choose_engine(AnchorSettings(), llama, 4, displaced_step=True).name == "two_pass"
    with pytest.raises(InputError, match="to probe"):
        probe(llama, two_batches(tiny.random_pairs(3)), AnchorSettings(engine="streaming"))


def test_which_losses_depend_on_the_margin_alone():
    alone = {name for name, objective in objectives().items() if depends_on_margin_alone(objective)}
    assert {"gapo", "gradnorm", "length_only", "simpo"} <= alone
    assert not {"dpo", "cpo", "orpo", "kto"} & alone
