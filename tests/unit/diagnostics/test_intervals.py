"""Resampling: what is known of means, clusters, seeds and draws without a value."""

from dataclasses import dataclass

import numpy as np
import pytest

from gapo.diagnostics.intervals import Estimate, bootstrap, bootstrap_all, flat


def test_the_interval_of_a_mean_is_the_textbooks():
    """mean -+ 1.96 * s / sqrt(n), within the noise of 4,000 draws."""
    values = np.random.default_rng(0).normal(3, 2, 400)
    found = bootstrap(np.mean, values, draws=4000)
    half = 1.959964 * values.std() / np.sqrt(len(values))
    assert found.value == values.mean()
    assert found.low == pytest.approx(values.mean() - half, abs=0.06 * half)
    assert found.high == pytest.approx(values.mean() + half, abs=0.06 * half)


def test_a_copy_of_every_row_in_its_cluster_tells_nothing_new():
    values = np.random.default_rng(1).normal(size=60)
    alone = bootstrap(np.mean, values, draws=4000)
    copies = np.repeat(values, 5)
    together = bootstrap(np.mean, copies, clusters=np.repeat(np.arange(60), 5), draws=4000)
    naive = bootstrap(np.mean, copies, draws=4000)
    width = alone.high - alone.low
    assert together.high - together.low == pytest.approx(width, rel=0.08)
    assert naive.high - naive.low == pytest.approx(width / np.sqrt(5), rel=0.08)


def test_clusters_are_drawn_whole_wherever_their_rows_stand():
    clusters = np.array([2, 0, 2, 1, 0, 2])
    sizes = {0: 2, 1: 1, 2: 3}

    def whole(drawn):
        names, counts = np.unique(drawn, return_counts=True)
        return float(all(count % sizes[name] == 0 for name, count in zip(names, counts, strict=True)))

    assert bootstrap(whole, clusters, clusters=clusters, draws=200) == (1, 1, 1)


def test_the_seed_decides():
    values = np.random.default_rng(2).normal(size=30)
    assert bootstrap(np.mean, values, seed=3) == bootstrap(np.mean, values, seed=3)
    assert bootstrap(np.mean, values, seed=3) != bootstrap(np.mean, values, seed=4)


def test_draws_without_a_value_do_not_count():
    def mean_of_ones(values, marked):
        return [float(values[marked].mean()) if marked.any() else float("nan"), float("nan")]

    marked = np.array([True] + [False] * 9)
    one, none = bootstrap_all(mean_of_ones, np.arange(10.0), marked)
    assert one == (0, 0, 0)
    assert np.isnan(none).all()


def test_a_finding_becomes_a_row():
    @dataclass(frozen=True)
    class Found:
        pairs: int
        area: Estimate
        parts: dict

    row = flat(Found(3, Estimate(0.5, 0.4, 0.6), {"gap": Estimate(1, 0, 2)}))
    assert row == {
        "pairs": 3, "area": 0.5, "area_low": 0.4, "area_high": 0.6,
        "parts_gap": 1, "parts_gap_low": 0, "parts_gap_high": 2,
    }  # fmt: skip
