"""The gradient bank as a table of numbers: everything it is asked for, against numpy."""

import weakref
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from torch import nn

from gapo.anchor import bank as module
from gapo.anchor.bank import BLOCK_ENTRIES, BLOCK_ENTRIES_ELSEWHERE, GradientBank
from gapo.model.ranks import Ranks

SHAPES = [(3, 2), (4,), (1, 5)]
PAIRS = 4


@pytest.fixture(params=[1, 8, 2**21], ids=lambda entries: f"{entries} entries a block")
def small_blocks(request, monkeypatch):
    monkeypatch.setitem(BLOCK_ENTRIES, "cpu", request.param)


def parameters(dtype=torch.float64):
    return [nn.Parameter(torch.zeros(shape, dtype=dtype)) for shape in SHAPES]


def numbers(seed=0, pairs=PAIRS):
    """G: a row for each pair, all parameters side by side."""
    return np.random.default_rng(seed).normal(size=(pairs, sum(map(np.prod, SHAPES))))


def parts(rows):
    """Rows as one `[pairs, *shape]` tensor a parameter."""
    cuts = np.cumsum([np.prod(shape) for shape in SHAPES])[:-1]
    return [torch.tensor(part.reshape(-1, *shape)) for part, shape in zip(np.split(rows, cuts, 1), SHAPES, strict=True)]


def flat(tensors):
    return np.concatenate([part.flatten().double().numpy() for part in tensors])


def filled(rows, dtype=None, weights=torch.float64):
    bank = GradientBank(parameters(weights), dtype)
    bank.reserve(len(rows))
    bank.put(torch.arange(len(rows)), parts(rows))
    return bank


@pytest.mark.parametrize("pairs", [slice(0, 4), slice(1, 3), slice(2, None)])
def test_what_is_asked_of_some_pairs_and_some_parameters(small_blocks, pairs):
    rows = numbers()
    bank = filled(rows)
    scope = [bank.parameters[2], bank.parameters[0]]  # in an order of its own
    some = np.concatenate([rows[pairs, 10:], rows[pairs, :6]], axis=1)
    g = some.mean(0)
    sums = bank.sums(pairs, scope)
    np.testing.assert_allclose(flat(sums.gradient), g)
    assert [part.shape for part in sums.gradient] == [(1, 5), (3, 2)]
    assert sums.norm == pytest.approx(np.linalg.norm(g))
    np.testing.assert_allclose(sums.norms, np.linalg.norm(some, axis=1))
    np.testing.assert_allclose(sums.dots, some @ g)
    np.testing.assert_allclose(bank.gram(pairs, scope), some @ some.T)
    direction = numbers(seed=1, pairs=1)[0]
    along = [torch.tensor(direction[10:]).view(1, 5), torch.tensor(direction[:6]).view(3, 2)]
    np.testing.assert_allclose(bank.along(along, pairs, scope), some @ np.r_[direction[10:], direction[:6]])


def test_the_steps_gradient_is_a_weighted_sum_over_all_pairs(small_blocks):
    rows, c = numbers(), np.array([0.5, -1.0, 2.0, 0.25])
    bank = filled(rows)
    found = bank.weighted(torch.tensor(c))
    np.testing.assert_allclose(flat(found), c @ rows)
    assert [part.shape for part in found] == SHAPES
    np.testing.assert_allclose(flat(bank.weighted(torch.tensor(c), scope=bank.parameters[1:2])), c @ rows[:, 6:10])
    one, other = c @ rows, rows.sum(0)
    cosine = bank.cosine(torch.tensor(c), torch.ones(PAIRS))
    assert cosine == pytest.approx(one @ other / np.linalg.norm(one) / np.linalg.norm(other))
    assert np.isnan(bank.cosine(torch.zeros(PAIRS), torch.ones(PAIRS)))
    assert bank.cosine(torch.full((PAIRS,), 1e-3), torch.ones(PAIRS)) == pytest.approx(1)


def test_one_pairs_gradient_is_a_copy():
    bank = filled(numbers())
    own = bank.own(2, bank.parameters)
    assert [part.shape for part in own] == SHAPES
    np.testing.assert_allclose(flat(own), numbers()[2])
    own[0].zero_()
    np.testing.assert_allclose(flat(bank.own(2, bank.parameters)), numbers()[2])


@pytest.mark.parametrize("weights", [torch.float32, torch.float64])
def test_a_bank_in_bf16_adds_up_in_fp32(small_blocks, weights):
    """Entries are rounded once, to 8 bits; their sums are not: 256 of them would be off by far more."""
    rows = np.random.default_rng(0).normal(size=(256, 15))
    kept = torch.tensor(rows).to(torch.bfloat16).double().numpy()
    bank = filled(rows, torch.bfloat16, weights)
    sums = bank.sums(slice(None), bank.parameters)
    np.testing.assert_allclose(flat(sums.gradient), kept.mean(0), atol=1e-7)
    np.testing.assert_allclose(sums.dots, kept @ kept.mean(0), atol=1e-5)
    assert {part.dtype for part in sums.gradient} == {torch.float32}
    assert {part.dtype for part in bank.own(0, bank.parameters)} == {torch.float32}
    assert {part.dtype for part in bank.weighted(torch.ones(256))} == {weights}
    assert bank.rows() is None
    np.testing.assert_allclose(flat(bank.weighted(torch.ones(256))), kept.sum(0), atol=1e-4)


def test_rows_are_the_banks_own_memory():
    bank = filled(numbers())
    for table, part in zip(bank.rows(), parts(numbers(seed=5)), strict=True):
        assert table.shape == part.shape
        table.copy_(part)
    np.testing.assert_allclose(flat(bank.own(3, bank.parameters)), numbers(seed=5)[3])


def test_room_once_taken_is_kept_for_fewer_pairs_and_taken_anew_for_more(monkeypatch):
    bank, old = GradientBank(parameters()), []

    def used_memory(*shape, **options):
        assert all(table() is None for table in old)  # what was kept is given back before more is taken
        return torch.full(shape, 7.0, **options)

    monkeypatch.setattr(module.torch, "empty", used_memory)
    assert len(bank) == 0
    bank.reserve(3)
    assert all(bool((table == 7).all()) for table in bank.rows())  # memory is there only once it is touched
    first = [table.data_ptr() for table in bank.rows()]
    for pairs in (2, 3):
        bank.reserve(pairs)
        assert [table.data_ptr() for table in bank.rows()] == first
        assert {len(table) for table in bank.rows()} == {len(bank)} == {pairs}
    old += [weakref.ref(table) for table in bank._tables]
    bank.reserve(4, touch=True)
    assert not any(table.any() for table in bank.rows())
    bank.release()
    assert len(bank) == 0
    assert bank._tables == []


@dataclass(frozen=True)
class Counting(Ranks):
    """Counts what is added up; another process has so many pairs."""

    elsewhere: int = 0
    sums: list[int] = field(default_factory=list)

    def sum(self, tensor):
        self.sums.append(len(tensor))
        return tensor

    def largest(self, number):
        return max(number, self.elsewhere)


@pytest.mark.parametrize(
    ("entries", "pairs", "elsewhere", "columns"),
    [
        (8, 4, 0, [2, 2, 2, 2, 2, 2, 2, 1]),  # tables of 6, 4 and 5 columns
        (8, 4, 8, [1] * 15),  # cut as the one with the most pairs must
        (1, 4, 0, [1] * 15),
        (3, 1, 0, [3, 3, 3, 1, 3, 2]),
        (2**21, 4, 0, [6, 4, 5]),
    ],
)
def test_sums_go_over_blocks_of_so_many_entries_alike_on_all_ranks(monkeypatch, entries, pairs, elsewhere, columns):
    monkeypatch.setitem(BLOCK_ENTRIES, "cpu", entries)
    ranks = Counting(elsewhere=elsewhere)
    filled(numbers(pairs=pairs)).weighted(torch.ones(pairs), ranks)
    assert ranks.sums == columns


def test_a_block_takes_8_megabytes_in_fp32_and_64_on_other_devices():
    assert 4 * BLOCK_ENTRIES["cpu"] == 8 * 1024**2
    assert 4 * BLOCK_ENTRIES_ELSEWHERE == 64 * 1024**2


def test_converted_blocks_use_the_same_memory_one_after_the_other():
    bank = filled(numbers(), torch.bfloat16)
    places = [block.data_ptr() for _ in range(2) for _, block in bank._blocks(0, slice(None))]
    assert places[0] == places[1]


def test_a_bank_of_one_parameter_and_a_bank_of_several_types():
    alone = GradientBank(parameters()[:1])
    alone.reserve(2)
    alone.reserve(1)
    assert len(alone) == 1
    mixed = GradientBank([*parameters(torch.float32), *parameters()], torch.float32)
    mixed.reserve(1)
    assert mixed.rows() is None  # gradients of some would have to be converted on the way in


def test_a_row_that_is_not_named_is_the_first():
    bank = GradientBank(parameters()[:1])
    bank.reserve(2)
    with bank.catching():
        bank.parameters[0].sum().backward()
    assert bank.rows()[0].flatten(1).sum(1).tolist() == [6, 0]


def test_fewer_pairs_than_there_is_room_for_are_the_only_ones_that_count():
    bank = filled(numbers())
    bank.reserve(2)
    bank.put(torch.tensor([1, 0]), parts(numbers(seed=3, pairs=2)))
    rows = numbers(seed=3, pairs=2)
    np.testing.assert_allclose(flat(bank.weighted(torch.tensor([2.0, 1.0]))), rows[0] + 2 * rows[1])
    np.testing.assert_allclose(bank.sums(slice(None), bank.parameters).norms, np.linalg.norm(rows[::-1], axis=1))


def test_catching_sorts_gradients_into_rows_and_leaves_none_behind():
    bank = GradientBank(parameters())
    rows, old = numbers(pairs=3), numbers(seed=4, pairs=3)
    bank.reserve(3)
    bank.put(torch.arange(3), parts(old))
    with bank.catching() as row:
        for pair in (2, 0):
            row[0] = pair
            for twice in range(2):  # in two parts, as under reentrant checkpointing
                pull = [part[pair] * (0.25 if twice else 0.75) for part in parts(rows)]
                used = bank.parameters[: 2 if pair else 3]  # the last pair's margin does not depend on the last one
                sum((p * g).sum() for p, g in zip(used, pull, strict=False)).backward()
                assert all(p.grad is None for p in bank.parameters)
    wanted = rows.copy()
    wanted[1] = 0  # no backward
    wanted[2, 10:] = 0  # no gradient
    for pair in range(3):
        np.testing.assert_allclose(flat(bank.own(pair, bank.parameters)), wanted[pair])
    assert all(not p._post_accumulate_grad_hooks for p in bank.parameters)


def test_no_pair_at_all_has_sums_too():
    """A rank may have none of a step's pairs."""
    bank = GradientBank(parameters())
    bank.reserve(0)
    sums = bank.sums(slice(0, 0), bank.parameters)
    assert sums.norm == 0
    assert len(sums.norms) == 0
    assert not flat(bank.weighted(torch.zeros(0))).any()
