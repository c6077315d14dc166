"""Filling the bank, one pair or many at a time, in one chunk or in several: the same rows in the same order."""

from contextlib import contextmanager

import pytest
import torch

import tiny
from gapo.anchor import fill as module
from gapo.anchor.bank import GradientBank
from gapo.anchor.fill import fill, pairs_at_once
from gapo.model import passes
from gapo.model.passes import forward
from gapo.pairs.collate import PairBatch, collate


@pytest.fixture
def pairs():
    return tiny.random_pairs(5, seed=3)


@pytest.fixture
def truth(llama, pairs):
    """Every pair's margin gradient by autograd, alone in its batch."""
    return [torch.autograd.grad(_margin(llama, pair), list(llama.parameters())) for pair in pairs]


def _margin(model, pair):
    with torch.enable_grad():
        return module.pair_logps(model, collate([pair], tiny.PAD)).margin.sum()


@pytest.mark.parametrize("at_once", [1, 2, 100])
@pytest.mark.parametrize("cut", [False, True], ids=["one chunk", "chunks of like length"])
@pytest.mark.parametrize("dtype", [None, torch.float32])
def test_rows_are_the_pairs_gradients_in_their_order(llama, pairs, truth, monkeypatch, at_once, cut, dtype):
    if cut:
        monkeypatch.setitem(passes.BATCH_ENTRIES, "cpu", 32 * 40)  # 40 tokens a chunk
    bank = GradientBank(list(llama.parameters()), dtype)
    passed = []

    @contextmanager
    def precision():
        passed.append(True)
        yield

    batches = [collate(pairs[:2], tiny.PAD), collate(pairs[2:], tiny.PAD)]
    found = fill(bank, llama, batches, precision, at_once=at_once)
    assert torch.allclose(found.margin, forward(llama, batches).margin, atol=1e-12)
    assert not found.margin.requires_grad
    close = {"atol": 1e-12} if dtype is None else {"atol": 1e-6, "rtol": 1e-5}
    for i, gradients in enumerate(truth):
        for ours, theirs in zip(bank.own(i, bank.parameters), gradients, strict=True):
            assert torch.allclose(ours.double(), theirs, **close)
    assert (len(passed) == 1) == (at_once == 100 and not cut)
    assert len(passed) <= len(pairs)
    if at_once == 1:
        assert len(passed) == len(pairs)
    if at_once == 2 and not cut:
        assert len(passed) == 3
    assert all(p.grad is None for p in llama.parameters())


def test_gradients_that_were_there_are_there_again(llama, pairs):
    marks = [torch.randn_like(p) for p in llama.parameters()]
    for parameter, mark in zip(llama.parameters(), marks, strict=True):
        parameter.grad = mark
    fill(GradientBank(list(llama.parameters())), llama, [collate(pairs, tiny.PAD)], at_once=1)
    assert all(p.grad is mark for p, mark in zip(llama.parameters(), marks, strict=True))


@pytest.mark.parametrize("at_once", [1, 8])
def test_a_rank_without_pairs_has_an_empty_bank(llama, at_once):
    bank = GradientBank(list(llama.parameters()))
    nobody = PairBatch(torch.zeros(0, 1).long(), torch.zeros(0, 1).long())
    found = fill(bank, llama, [nobody], at_once=at_once)
    assert (len(found), len(bank)) == (0, 0)
    assert found.chosen.dtype == torch.float64


def test_one_pair_at_a_time_needs_no_rule_for_its_layers(llama, pairs, monkeypatch):
    monkeypatch.setattr(module, "margin_gradients", lambda *_: pytest.fail("no layer may be unknown to this"))
    fill(GradientBank(list(llama.parameters())), llama, [collate(pairs, tiny.PAD)], at_once=1)


def test_a_single_chunk_is_written_where_it_stays(llama, pairs, monkeypatch):
    monkeypatch.setattr(GradientBank, "put", lambda *_: pytest.fail("this would be a copy"))
    fill(GradientBank(list(llama.parameters())), llama, [collate(pairs, tiny.PAD)], at_once=100)


def test_as_many_pairs_at_once_as_fit_beside_the_bank(llama, monkeypatch):
    llama.model.embed_tokens.weight.requires_grad_(False)
    entries = sum(p.numel() for p in llama.parameters() if p.requires_grad)
    for room, fit in ((3 * entries, 3), (3 * entries - 1, 2), (2 * entries, 2), (2 * entries - 1, 1), (1, 1)):
        monkeypatch.setattr(module, "ENTRIES_AT_ONCE", room)
        assert pairs_at_once(llama) == fit


def test_where_one_pair_fits_no_trial_of_several_is_made(llama, monkeypatch):
    monkeypatch.setattr(module, "ENTRIES_AT_ONCE", sum(p.numel() for p in llama.parameters()))
    monkeypatch.setattr(module, "obstacle", lambda model: pytest.fail("it needs room for three gradients"))
    assert pairs_at_once(llama) == 1
    llama.requires_grad_(False)
    monkeypatch.setattr(module, "obstacle", lambda model: "nothing is trained")
    assert pairs_at_once(llama) == 1


def test_one_at_a_time_where_gradients_cannot_be_told_apart(llama, monkeypatch):
    assert pairs_at_once(llama) == 2**26 // sum(p.numel() for p in llama.parameters())  # 256 MB in fp32
    monkeypatch.setattr(module, "obstacle", lambda model: "a layer of an unknown kind")
    assert pairs_at_once(llama) == 1
    monkeypatch.setattr(module, "obstacle", lambda model: None)
    llama.gradient_checkpointing_enable()
    assert pairs_at_once(llama) == 1
