"""Judging labels by one pass: sketches against gradients one by one, flips, the cache, and what is left untouched."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import tiny
from gapo.consensus import judging
from gapo.consensus.judging import judged, sketches_of
from gapo.consensus.scope import judging_parameters, only
from gapo.consensus.sketch import Signs
from gapo.consensus.watch import Watch
from gapo.diagnostics.label_check import label_check
from gapo.model.policy import pair_logps
from gapo.pairs.collate import collate


@pytest.fixture
def model():
    return tiny.llama(dtype=torch.float32)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GAPO_CACHE", str(tmp_path / "cache"))


def by_hand(model, pairs, scope):
    """Unit sketches from one backward a pair."""
    parameters = judging_parameters(model, scope)
    signs = Signs.of(parameters)
    flat = torch.cat([part.float() for part in signs._signs])
    rows = []
    for pair in pairs:
        model.zero_grad()
        pair_logps(model, collate([pair], tiny.PAD)).margin.sum().backward()
        gradient = torch.cat([p.grad.flatten() for p in parameters]) * flat
        padded = torch.nn.functional.pad(gradient, (0, -len(gradient) % signs.size))
        rows.append(padded.view(-1, signs.size).sum(0))
    model.zero_grad()
    rows = torch.stack(rows)
    return rows / rows.norm(dim=1, keepdim=True)


@pytest.mark.parametrize("scope", ["top", "full", "lm_head", r"layers\.0\."])
def test_sketches_are_those_of_each_pairs_own_gradient(model, scope):
    pairs = tiny.random_pairs(9)
    found = sketches_of(model, pairs, tiny.PAD, scope=scope)
    np.testing.assert_allclose(found.numpy(), by_hand(model, pairs, scope).numpy(), atol=2e-3)  # kept in 16 bits
    assert all(p.requires_grad and p.grad is None for p in model.parameters())


SCOPES = pytest.mark.parametrize("scope", ["states", "full"])


@pytest.fixture
def passes(monkeypatch):
    """How many pairs each pass over a slice has."""
    found, compute = [], judging._Pass.__call__
    monkeypatch.setattr(judging._Pass, "__call__", lambda self, some: found.append(len(some)) or compute(self, some))
    return found


@SCOPES
def test_a_flipped_label_is_the_same_sketch_with_another_sign_and_needs_no_pass(model, passes, scope):
    pairs = tiny.random_pairs(7)
    first = sketches_of(model, pairs, tiny.PAD, scope=scope)
    turned = [replace(pair, chosen=pair.rejected, rejected=pair.chosen) for pair in pairs[:3]] + pairs[3:]
    again = sketches_of(model, turned, tiny.PAD, scope=scope)
    assert passes == [7]
    assert torch.equal(again[:3], -first[:3])
    assert torch.equal(again[3:], first[3:])


@SCOPES
def test_an_interrupted_pass_goes_on_where_it_stopped(model, monkeypatch, passes, scope):
    monkeypatch.setattr(judging, "SLICE", 3)
    pairs = tiny.random_pairs(8)
    whole = sketches_of(model, pairs, tiny.PAD, scope=scope, cache=False)
    sketches_of(model, pairs[:6], tiny.PAD, scope=scope)
    passes.clear()
    assert torch.equal(sketches_of(model, pairs, tiny.PAD, scope=scope), whole)
    assert passes == [2]  # the last two pairs


def test_states_leave_the_model_as_it_was(model):
    model.train()
    sketches_of(model, tiny.random_pairs(4), tiny.PAD)
    assert model.training
    assert all(p.requires_grad and p.grad is None and not p.is_inference() for p in model.parameters())


def test_other_weights_have_other_sketches(model):
    pairs = tiny.random_pairs(4)
    before = sketches_of(model, pairs, tiny.PAD)
    with torch.no_grad():
        model.lm_head.weight.mul_(1.5)
    assert not torch.equal(sketches_of(model, pairs, tiny.PAD), before)


def test_the_top_is_the_last_quarter_of_the_layers_but_two_at_least():
    deep = tiny.llama(dtype=torch.float32, num_hidden_layers=12)
    names = {id(p): name for name, p in deep.named_parameters()}
    layers = {int(names[id(p)].split(".")[2]) for p in judging_parameters(deep, "top")}
    assert layers == {9, 10, 11}
    shallow = tiny.llama()
    assert len(judging_parameters(shallow, "top")) == sum("layers" in n for n, _ in shallow.named_parameters())


def test_only_gives_gradients_back_after_an_error(model):
    with pytest.raises(RuntimeError), only(model, judging_parameters(model, "lm_head")):
        raise RuntimeError
    assert all(p.requires_grad for p in model.parameters())


def planted(pairs=400, wrong=0.2, strength=0.3, seed=0):
    rng = np.random.default_rng(seed)
    flipped = rng.random(pairs) < wrong
    rows = strength * np.eye(64)[0] + rng.normal(size=(pairs, 64)) / 8
    return torch.from_numpy(np.where(flipped, -1, 1)[:, None] * rows).float(), flipped


def test_planted_flips_are_found_and_counted():
    sketches, flipped = planted()
    found = judged(sketches, torch.arange(len(sketches)))
    assert found.mixture.rate == pytest.approx(flipped.mean(), abs=0.06)
    assert found.wrong[torch.from_numpy(flipped)].mean() > 3 * found.wrong[torch.from_numpy(~flipped)].mean()


@pytest.mark.parametrize(("strength", "verdict"), [(0.5, "strong"), (0.0, "none")])
def test_the_check_says_whether_labels_can_be_told(strength, verdict):
    sketches, _ = planted(strength=strength, wrong=0.0)
    check = label_check(sketches, torch.arange(len(sketches)))
    assert check.verdict == verdict
    assert check.low <= check.area <= check.high
    assert check.flips == 40
    assert ("too weak to act on" in check.words) == (verdict == "none")


def test_a_step_under_watch_has_the_gradient_of_its_weighted_margins(model):
    pairs = tiny.random_pairs(6)
    batches = [collate(pairs[:4], tiny.PAD), collate(pairs[4:], tiny.PAD)]
    weights = torch.tensor([0.5, -0.2, 1.0, 0.0, 0.3, 0.7])
    watch = Watch("full")
    found = watch.step(model, batches, torch.arange(6), lambda places, policy, wrong: weights[places])
    model.zero_grad()
    (pair_logps(model, collate(pairs, tiny.PAD)).margin * weights).sum().backward()
    for parameter, gradient in zip(model.parameters(), found.gradient, strict=True):
        torch.testing.assert_close(gradient, parameter.grad, rtol=1e-4, atol=1e-6)
    assert len(watch.window) == 6
    np.testing.assert_allclose(watch.window.rows.numpy(), by_hand(model, pairs, "full").numpy(), atol=1e-4)
    assert not found.wrong.any()
