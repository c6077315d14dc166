"""Directions in which labels agree: by other means, and what they are for."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from gapo.consensus.agreement import LEVELS, QUIET, agreeing, fitted, in_axes, kept
from gapo.consensus.direction import along_others
from gapo.diagnostics.ranking import area_under_roc

SEEDS = st.integers(0, 10_000)


def random_rows(seed, pairs=40, width=64, lean=0.3):
    """Rows of length 1 with a common part, some directions longer than others."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(pairs, width)) / np.sqrt(1 + np.arange(width)) + lean * rng.normal(size=width) / np.sqrt(
        width
    )
    return torch.from_numpy(rows / np.linalg.norm(rows, axis=1, keepdims=True))


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.integers(2, 30), st.integers(1, 30))
def test_axes_change_no_product_and_stand_at_right_angles(seed, pairs, width):
    rows = random_rows(seed, pairs, width)
    found = in_axes(rows)
    torch.testing.assert_close(found @ found.T, rows @ rows.T, rtol=0, atol=1e-12)
    across = found.T @ found
    torch.testing.assert_close(across, torch.diag(across.diagonal()), rtol=0, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.integers(3, 30), st.integers(2, 30))
def test_products_are_those_of_a_singular_value_decomposition(seed, pairs, width):
    rows = random_rows(seed, pairs, width)
    parts, lengths, _ = np.linalg.svd(rows.numpy(), full_matrices=False)
    some = lengths > 1e-6 * lengths.max()
    parts, sizes = parts[:, some], lengths[some] ** 2
    share = kept(sizes, parts.sum(0))
    expected = (parts * sizes * share / share.max()) @ parts.T
    found = agreeing(in_axes(rows))
    np.testing.assert_allclose(found @ found.T, expected, atol=1e-8)


@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_what_is_kept_is_the_expected_part_of_what_is_seen(seed):
    """E[c | b] by integrals over c, one direction at a time."""
    rng = np.random.default_rng(seed)
    sizes, agreed = rng.gamma(1.0, size=12) + 0.01, rng.normal(size=12) * rng.choice([0.5, 1, 4], 12)
    share, noise = fitted(sizes, agreed)
    found = kept(sizes, agreed)
    for size, b, got in zip(sizes / sizes.mean(), agreed, found, strict=True):

        def integral(power, size=size, b=b):
            total = share[0] * norm.pdf(b, 0, np.sqrt(noise)) if power == 0 else 0.0  # level 0: c is 0
            for level, part in zip(LEVELS[1:], share[1:], strict=True):
                wide = np.sqrt(level * size)
                mean, spread = b * wide**2 / (wide**2 + noise), np.sqrt(noise) * wide / np.sqrt(wide**2 + noise)
                near = (mean - 12 * spread, mean + 12 * spread)

                def height(c, wide=wide):
                    return c**power * norm.pdf(c, 0, wide) * norm.pdf(b - c, 0, np.sqrt(noise))

                total += part * quad(height, *near, limit=200)[0]
            return total

        assert got * b == pytest.approx(integral(1) / integral(0), rel=1e-6, abs=1e-9)


@settings(max_examples=15, deadline=None)
@given(SEEDS, st.floats(0.1, 20))
def test_no_other_shares_or_noise_nearby_are_likelier(seed, lean):
    rng = np.random.default_rng(seed)
    sizes = rng.gamma(1.0, size=80) + 0.01
    agreed = rng.normal(size=80) + lean * (rng.random(80) < 0.1) * rng.normal(size=80)
    share, noise = fitted(sizes, agreed)

    def likelihood(share, noise):
        spread = np.sqrt(noise + LEVELS * (sizes / sizes.mean())[:, None])
        return np.log((share * norm.pdf(agreed[:, None], 0, spread)).sum(1)).sum()

    top = likelihood(share, noise)
    assert QUIET <= noise <= 1
    assert share.sum() == pytest.approx(1)
    for _ in range(20):
        other = 0.99 * share + 0.01 * rng.dirichlet(np.ones(len(LEVELS)))
        assert likelihood(other, float(np.clip(noise * rng.uniform(0.99, 1.01), QUIET, 1))) <= top + 0.02


def test_labels_that_all_agree_are_kept_whole():
    """One direction, no wrong label: nothing to hold back, and alignments are 1."""
    rows = torch.ones(50, 3, dtype=torch.float64) / np.sqrt(3)
    found = agreeing(in_axes(rows))
    torch.testing.assert_close(found @ found.T, rows @ rows.T)


@pytest.mark.parametrize(
    "rows", [torch.zeros(5, 4), torch.zeros(1, 4), torch.ones(1, 1)], ids=["none", "one", "single"]
)
def test_rows_that_say_nothing_are_left_alone(rows):
    found = agreeing(in_axes(rows))
    assert torch.isfinite(found).all()
    torch.testing.assert_close(found @ found.T, (rows @ rows.T).double())


def nuisance_world(seed, pairs=400, rate=0.4):
    """What pairs differ in most is not what was preferred: a direction three times as long, of either sign."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(pairs, 200)) / np.sqrt(200)
    rows[:, 0] += 1.2 * rng.choice([-1, 1], pairs)
    rows[:, 1] += 0.4
    wrong = rng.permutation(pairs) < rate * pairs
    rows = np.where(wrong[:, None], -rows, rows)
    return torch.from_numpy(rows / np.linalg.norm(rows, axis=1, keepdims=True)), wrong


def areas(rate, kinds, draws=12):
    found = []
    for seed in range(draws):
        rows, wrong = nuisance_world(seed, rate=rate)
        rows = in_axes(rows)
        alone = torch.arange(len(rows))
        found.append([area_under_roc(-along_others(kind(rows), alone).numpy(), wrong) for kind in kinds])
    return np.mean(found, axis=0)


def test_a_long_direction_that_says_nothing_no_longer_leads():
    plain, agreed = areas(0.4, (lambda rows: rows, agreeing))
    assert agreed > plain + 0.03


def test_labels_turned_by_a_coin_are_not_found():
    """A pair's own label has a part in what is kept, and must not betray the pair."""
    plain, agreed = areas(0.5, (lambda rows: rows, agreeing), draws=40)
    assert agreed == pytest.approx(plain, abs=0.05)


def test_leaders_alone_are_asked():
    rows, _ = nuisance_world(3)
    rows = in_axes(rows)
    leaders = torch.arange(len(rows)) < 200
    turned = torch.where(leaders[:, None], rows, -rows)
    torch.testing.assert_close(agreeing(rows, leaders)[leaders], agreeing(turned, leaders)[leaders])
    torch.testing.assert_close(agreeing(rows, torch.ones(len(rows), dtype=torch.bool)), agreeing(rows))
