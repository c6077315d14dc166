"""Laws of an audit's batches, and of first-order gaps within them."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from gapo.diagnostics.compositions import blocks_of, composition, spread_seen
from gapo.diagnostics.probing import geometry_of_gram


@given(st.data())
def test_every_pair_is_in_every_composition_exactly_once(data):
    pairs = data.draw(st.integers(1, 300))
    batch = data.draw(st.integers(1, pairs))
    size = data.draw(st.integers(batch, 120 + batch))
    seed = data.draw(st.integers(0, 2**31))
    blocks = blocks_of(pairs, size, batch, seed)
    assert sorted(i for rows, new in blocks for i in rows[len(rows) - new :].tolist()) == list(range(pairs))
    for number, (rows, _) in enumerate(blocks):
        assert batch <= len(rows) <= size
        for c in range(2):
            cut = composition(len(rows), batch, seed, number, c)
            assert all(len(set(members.tolist())) == len(members) == batch for members, _ in cut)
            fresh = [i for members, new in cut for i in members[len(members) - new :].tolist()]
            assert sorted(fresh) == list(range(len(rows)))


@given(st.integers(0, 1000))
def test_compositions_are_told_by_their_seed_and_differ(seed):
    def batches(c):
        return [members.tolist() for members, _ in composition(64, 16, seed, 0, c)]

    assert batches(0) == batches(0)
    assert batches(0) != batches(1)


@given(st.integers(0, 10_000), st.integers(1, 9), st.floats(0.001, 1.0))
def test_first_order_gaps_of_a_batch_sum_to_n_radius_times_the_norm(seed, n, radius):
    """mean_i rho * G_i . g/|g| = rho * |g|, because g is the mean of the G_i."""
    gradients = torch.from_numpy(np.random.default_rng(seed).normal(size=(n, 5)))
    geometry, _ = geometry_of_gram(gradients @ gradients.T, n, radius)
    total = float((geometry.gap_self + geometry.gap_others).sum())
    np.testing.assert_allclose(total, n * radius * float(gradients.mean(0).norm()), rtol=1e-9)


@given(st.integers(2, 12), st.integers(2, 4))
def test_the_spread_within_a_block_falls_short_as_said(batch, batches):
    """The variance of the others' sum, drawn without replacement, is (1 - (b - 1)/(B - 1)) of that with replacement."""
    block = batch * batches
    values = np.random.default_rng(batch).normal(size=block - 1)
    with_replacement = (batch - 1) * values.var()
    without = (batch - 1) * values.var(ddof=1) * (1 - (batch - 1) / (block - 1))
    assert abs(without / with_replacement / spread_seen(batch, block) ** 2 - 1) < 1.01 / (block - 2)
