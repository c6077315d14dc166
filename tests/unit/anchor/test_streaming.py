"""The running mean of ||g|| that streaming lives on, step by step."""

import math

import pytest
import torch

import tiny
from gapo.anchor import AnchorSettings
from gapo.anchor.engines import ENGINES
from gapo.anchor.streaming import Streaming
from gapo.errors import InputError
from gapo.pairs.collate import collate

RADIUS = 0.05


def each_counts(places, policy, anchor):
    return torch.ones(1)


def step(engine, model, pairs, weigh=each_counts):
    return engine.anchors(model, [collate(pairs[:2], tiny.PAD), collate(pairs[2:], tiny.PAD)], 1, weigh)


def mean_norm(model, pairs):
    found = ENGINES["two_pass"](AnchorSettings()).directions(model, [collate(pairs, tiny.PAD)])
    return found.direction_norm


@pytest.mark.parametrize("short", [False, True])
def test_the_norm_is_first_measured_and_then_follows_by_a_tenth(llama, short):
    """With equal weights ||sum c_i G_i|| / |sum c_i| is ||g|| of the step's pairs."""
    if short:
        with torch.no_grad():
            llama.lm_head.weight.mul_(1e-3)
            llama.model.norm.weight.mul_(0.1)
    first, second = tiny.random_pairs(4, seed=1), tiny.random_pairs(4, seed=2)
    one, other = mean_norm(llama, first), mean_norm(llama, second)
    assert (max(one, other) < 1) == short
    engine = Streaming(AnchorSettings(radius=RADIUS))
    assert step(engine, llama, first).direction_norm == pytest.approx(one, rel=1e-6)
    assert engine.norm == pytest.approx(one, rel=1e-6)
    assert step(engine, llama, second).direction_norm == pytest.approx(one, rel=1e-6)  # of the steps before
    assert engine.norm == pytest.approx(0.9 * one + 0.1 * other, rel=1e-6)


def test_opposite_signs_of_all_weights_teach_the_same_norm(llama):
    pairs = tiny.random_pairs(4, seed=1)
    engines = Streaming(AnchorSettings()), Streaming(AnchorSettings())
    for sign, engine in zip((1.0, -1.0), engines, strict=True):
        engine.norm = 1.0
        step(engine, llama, pairs, lambda *_, sign=sign: torch.full((1,), sign))
    assert engines[0].norm == pytest.approx(engines[1].norm, rel=1e-12)
    assert engines[0].norm == pytest.approx(0.9 + 0.1 * mean_norm(llama, pairs), rel=1e-6)


def test_weights_that_cancel_teach_nothing(llama):
    engine = Streaming(AnchorSettings())
    step(engine, llama, tiny.random_pairs(4, seed=1))
    before = engine.norm
    found = step(engine, llama, tiny.random_pairs(4, seed=2), lambda *_: torch.zeros(1))
    assert engine.norm == before
    assert not any(part.any() for part in found.gradient)


def test_an_engine_that_knew_no_direction_learns_the_first_it_sees(llama):
    pairs = tiny.random_pairs(4, seed=1)
    engine = Streaming(AnchorSettings(radius=RADIUS))
    engine.norm = 0.0
    found = step(engine, llama, pairs)
    assert not found.gap.any()
    assert not found.geometry.gap_self.any()
    assert engine.norm == pytest.approx(mean_norm(llama, pairs), rel=1e-6)


def test_the_own_share_is_counted_in_the_group_and_the_scope(llama):
    """Two groups of two pairs: rho * ||G_i||^2 / (2 * ||g||), with the norm of the head's gradient alone."""
    pairs = tiny.random_pairs(4, seed=3)
    engine = Streaming(AnchorSettings(radius=RADIUS, batches=1, scope="lm_head"))
    engine.norm = 0.4
    places = []

    def weigh(where, policy, anchor):
        places.append((where.start, where.stop))
        assert torch.equal(policy.chosen_tokens, torch.tensor([len(pairs[where.start].chosen)]))
        return torch.ones(1)

    found = step(engine, llama, pairs, weigh)
    bank = ENGINES["bank"](AnchorSettings()).norms(llama, [collate(pairs, tiny.PAD)]).bank
    norms = bank.sums(slice(None), [llama.lm_head.weight]).norms
    assert places == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert torch.allclose(found.geometry.grad_norm, norms)
    assert torch.allclose(found.gap, RADIUS * norms**2 / (2 * 0.4))
    assert torch.allclose(found.geometry.gap_self, found.gap)
    assert found.geometry.alignment.isnan().all()
    assert found.geometry.gap_others.isnan().all()
    for part, whole in zip(found.gradient, bank.weighted(torch.ones(4)), strict=True):  # of all that is trained
        assert torch.allclose(part, whole, atol=1e-12)
    head = float(bank.weighted(torch.ones(4), scope=[llama.lm_head.weight])[0].norm()) / 4
    assert engine.norm == pytest.approx(0.9 * 0.4 + 0.1 * head)


def test_gradients_that_were_there_are_there_again(llama):
    marks = [torch.randn_like(p) for p in llama.parameters()]
    for parameter, mark in zip(llama.parameters(), marks, strict=True):
        parameter.grad = mark
    step(Streaming(AnchorSettings()), llama, tiny.random_pairs(4))
    assert all(p.grad is mark for p, mark in zip(llama.parameters(), marks, strict=True))


def test_a_parameter_the_margin_does_not_move_stays_where_it_is(llama):
    llama.register_parameter("idle", torch.nn.Parameter(torch.ones(3, dtype=torch.float64)))
    llama.model.embed_tokens.weight.requires_grad_(False)
    found = step(Streaming(AnchorSettings()), llama, tiny.random_pairs(4))
    trained = [p for p in llama.parameters() if p.requires_grad]
    assert [part.shape for part in found.gradient] == [p.shape for p in trained]
    assert not found.policy.margin.requires_grad
    assert not found.anchor.margin.requires_grad
    assert not found.gradient[[p is llama.idle for p in trained].index(True)].any()


def test_what_streaming_cannot_do_it_says(llama):
    engine, batches = Streaming(AnchorSettings()), [collate(tiny.random_pairs(2), tiny.PAD)]
    with pytest.raises(ValueError, match="must know how pairs are weighed"):
        engine.anchors(llama, batches)
    with pytest.raises(InputError, match="gradnorm scales by the mean over a step"):
        engine.norms(llama, batches)


def test_the_norm_goes_with_a_checkpoint():
    engine, again = Streaming(AnchorSettings()), Streaming(AnchorSettings())
    engine.norm, engine.forwards.safe = math.pi, True
    again.load_state(engine.state())
    assert (again.norm, again.forwards.safe) == (math.pi, True)
    again.load_state({})
    assert (again.norm, again.forwards.safe) == (None, False)
