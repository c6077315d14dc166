"""Self shares against gradients drawn in the test: orthogonal ones, related ones, uneven ones."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import spearmanr

from gapo.diagnostics.shares import gap_parts, orthogonal, probe_summary, self_share, self_shares, share_expected

RADIUS = 0.05


def probed(batches):
    """The columns of a probe, straight from the definitions; `batches` are matrices, a row a pair."""
    columns = {}
    for k, gradients in enumerate(batches):
        n, g = len(gradients), gradients.mean(0)
        norms, length = np.linalg.norm(gradients, axis=1), np.linalg.norm(g)
        own = RADIUS * norms**2 / (n * length)
        part = {
            "grad_norm": norms,
            "alignment": gradients @ g / (norms * length),
            "gap_self": own,
            "gap_others": RADIUS * gradients @ g / length - own,
            "own_gap": RADIUS * norms,
            "group": np.full(n, k),
            "batch_pairs": np.full(n, n),
            "batch_grad_norm": np.full(n, np.sqrt((norms**2).sum())),
        }
        for name, values in part.items():
            columns.setdefault(name, []).append(values)
    return pa.table({name: np.concatenate(parts) for name, parts in columns.items()})


def orthogonal_batches(n=16, batches=6, seed=0):
    rng = np.random.default_rng(seed)
    return [np.linalg.qr(rng.normal(size=(40, n)))[0].T * np.exp(rng.normal(0, 0.5, (n, 1))) for _ in range(batches)]


def related_batches(n=16, batches=6, seed=0, common=0.3):
    rng = np.random.default_rng(seed)
    towards = rng.normal(size=60) / np.sqrt(60)
    return [rng.normal(size=(n, 60)) / np.sqrt(60) + common * towards for _ in range(batches)]


def test_orthogonal_gradients_measure_every_pair_against_itself():
    table = probed(orthogonal_batches())
    found = self_shares(table, draws=50)
    assert (found.batch_pairs, found.pairs) == (16, 96)
    for share in (found.pooled, found.median, found.variance):
        assert share == pytest.approx((1, 1, 1))
    assert found.cosine.value == pytest.approx(0, abs=1e-12)
    assert found.alignment.value == pytest.approx(found.orthogonal_alignment)
    assert found.equal_alignment == pytest.approx(1 / 4)
    norms = np.array(table["grad_norm"]).reshape(6, 16)
    lengths = np.sqrt((norms**2).sum(1, keepdims=True))
    assert found.alignment.value == pytest.approx(np.median(norms / lengths))


def test_the_share_is_what_the_mean_cosine_says():
    """share = 1 / (1 + (n - 1) c), with c = sum_{i != j} G_i . G_j / ((n - 1) sum |G_i|^2), in every batch."""
    for gradients in related_batches():
        n = len(gradients)
        products = gradients @ gradients.T
        cosine = (products.sum() - np.trace(products)) / ((n - 1) * np.trace(products))
        found = self_shares(probed([gradients]), draws=5)
        assert found.pooled.value == pytest.approx(float(share_expected(n, cosine)))
        assert found.cosine.value == pytest.approx(cosine)
    assert share_expected(np.array([1, 8, 64]), 0.1) == pytest.approx([1, 1 / 1.7, 1 / 7.3])


def test_a_gap_below_zero_has_no_shares():
    share = self_share(np.array([1.0, 1, 1]), np.array([1.0, -1, -2]))
    assert share[0] == 0.5
    assert np.isnan(share[1:]).all()


def test_parts_of_the_variance_add_up_and_follow_the_larger_term():
    rng = np.random.default_rng(0)
    own, others = rng.normal(0, 1, 5000), rng.normal(0, 3, 5000)
    parts = gap_parts(own, others)
    assert sum(parts) == pytest.approx(1)
    assert parts[0] == pytest.approx(0.1, abs=0.02)
    assert np.isnan(gap_parts(np.ones(3), np.ones(3))).all()


def test_the_summary_is_the_papers():
    table = probed(related_batches(common=1))
    found = probe_summary(table, draws=100)
    norm, alignment = np.array(table["grad_norm"]), np.array(table["alignment"])
    assert (found.pairs, found.batches) == (96, 6)
    assert found.positive.value == (alignment > 0).mean()
    assert found.alignment.value == np.median(alignment)
    assert found.spearman.value == pytest.approx(spearmanr(norm * alignment, norm)[0])
    assert found.norm_spread.value == pytest.approx(np.log(norm).std(ddof=1))
    assert found.alignment_spread.value == pytest.approx(np.log(alignment[alignment > 0]).std(ddof=1))


def test_orthogonal_makes_of_related_gradients_what_unrelated_ones_would_give():
    """The same norms on orthogonal axes, probed anew."""
    batches = related_batches(common=1)
    apart = probed([np.diag(np.linalg.norm(gradients, axis=1)) for gradients in batches])
    made = orthogonal(probed(batches))
    for name in ("alignment", "gap_self", "gap_others"):
        assert np.array(made[name]) == pytest.approx(np.array(apart[name]), abs=1e-12)
    assert probe_summary(made, draws=5).positive.value == 1
