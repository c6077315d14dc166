"""Sketches against the sum they stand for, and what they keep of a gradient."""

import numpy as np
import torch
from torch import nn

from gapo.anchor.bank import BLOCK_ENTRIES, GradientBank
from gapo.consensus.sketch import Signs

SHAPES = [(3, 5), (7,), (2, 2, 2)]


def parameters():
    return [nn.Parameter(torch.zeros(shape)) for shape in SHAPES]


def filled(rows):
    own = parameters()
    bank = GradientBank(own)
    bank.reserve(len(rows))
    cuts = np.cumsum([p.numel() for p in own])[:-1]
    bank.put(torch.arange(len(rows)), [torch.tensor(part) for part in np.split(rows, cuts, axis=1)])
    return bank


def sketched(rows, size=4):
    bank = filled(rows.astype(np.float32))
    signs = Signs.of(bank.parameters, size=size)
    return signs, signs.sketch(bank.parts(bank.parameters), len(rows))


def test_a_sketch_is_the_signed_sum_of_every_size_th_entry(monkeypatch):
    rows = np.random.default_rng(0).normal(size=(3, 30))
    for entries in (1, 6, 2**21):  # however a table is cut into blocks
        monkeypatch.setitem(BLOCK_ENTRIES, "cpu", entries)
        signs, found = sketched(rows)
        flat = np.concatenate([part.numpy() for part in signs._signs])
        expected = np.array([[(row * flat)[bucket::4].sum() for bucket in range(4)] for row in rows])
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_a_flipped_pair_has_minus_its_sketch_bit_for_bit():
    rows = np.random.default_rng(1).normal(size=(4, 30))
    assert torch.equal(sketched(-rows)[1], -sketched(rows)[1])


def test_dot_products_are_kept_on_average_and_to_one_over_the_root_of_the_size():
    rng = np.random.default_rng(2)
    one, other = rng.normal(size=(2, 30))
    other = 0.6 * one + 0.8 * other
    rows = np.stack([one, other]).astype(np.float32)
    found = []
    for seed in range(400):
        bank = filled(rows)
        s = Signs.of(bank.parameters, size=8, seed=seed).sketch(bank.parts(bank.parameters), 2)
        found.append(float(s[0] @ s[1]))
    lengths = np.linalg.norm(one) * np.linalg.norm(other)
    error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found) - one @ other) < 4 * error
    assert np.std(found) < 1.5 * lengths / np.sqrt(8)


def test_only_the_parameters_in_scope_count():
    rows = np.random.default_rng(3).normal(size=(2, 30)).astype(np.float32)
    bank = filled(rows)
    some = bank.parameters[1:2]
    whole = Signs.of(some, size=4).sketch(bank.parts(some), 2)
    rows[:, :15], rows[:, 22:] = 9.0, -9.0
    other = filled(rows)
    assert torch.equal(Signs.of(other.parameters[1:2], size=4).sketch(other.parts(other.parameters[1:2]), 2), whole)
