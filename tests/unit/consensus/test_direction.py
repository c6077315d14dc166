"""Alignments with the others, against loops over pairs in float64."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

from gapo.consensus.direction import along_others, evened, units


def by_hand(rows, prompts, leaders=None):
    found = []
    for i, row in enumerate(rows):
        direction = np.zeros(rows.shape[1])
        for j, other in enumerate(rows):
            if prompts[j] != prompts[i] and (leaders is None or leaders[j]):
                direction += other
        length = np.linalg.norm(direction)
        found.append(row @ direction / length if length > 1e-6 else 0.0)
    return np.array(found)


def random_rows(seed, pairs=9, size=6):
    return units(torch.from_numpy(np.random.default_rng(seed).normal(size=(pairs, size)))).float()


@given(some.integers(0, 2**31), some.lists(some.integers(0, 4), min_size=9, max_size=9))
def test_every_pair_is_held_against_all_of_other_prompts(seed, prompts):
    rows = random_rows(seed)
    found = along_others(rows, torch.tensor(prompts))
    np.testing.assert_allclose(found.numpy(), by_hand(rows.double().numpy(), prompts), atol=1e-5)


@given(some.integers(0, 2**31), some.integers(0, 8))
def test_flipping_one_pair_negates_its_own_alignment_and_no_length(seed, place):
    rows, prompts = random_rows(seed), torch.arange(9)
    turned = rows.clone()
    turned[place] *= -1
    assert float(along_others(turned, prompts)[place]) == pytest.approx(-float(along_others(rows, prompts)[place]))
    torch.testing.assert_close(evened(turned)[place], -evened(rows)[place])


def test_a_pair_has_no_part_in_its_own_direction():
    rows, prompts = random_rows(0), torch.arange(9)
    before = along_others(rows, prompts)
    other = rows.clone()
    other[3] = units(torch.randn(1, 6, generator=torch.Generator().manual_seed(1)))[0]
    after = along_others(other, prompts)
    direction = rows.sum(0) - rows[3]
    assert float(after[3]) == pytest.approx(float(other[3] @ direction / direction.norm()), abs=1e-6)
    assert not torch.allclose(after[:3], before[:3])


def test_leaders_alone_make_the_direction():
    rows, prompts = random_rows(1), [0, 0, 1, 2, 3, 4, 5, 6, 7]
    leaders = torch.tensor([1, 0, 1, 0, 1, 0, 1, 0, 1])
    found = along_others(rows, torch.tensor(prompts), leaders)
    np.testing.assert_allclose(found.numpy(), by_hand(rows.double().numpy(), prompts, leaders.numpy()), atol=1e-5)


@pytest.mark.parametrize("pairs", [9, 400])
def test_one_prompt_alone_has_no_others(pairs):
    assert not along_others(random_rows(2, pairs), torch.zeros(pairs, dtype=torch.long)).any()


def test_buckets_are_evened_so_that_a_huge_one_does_not_lead():
    rng = np.random.default_rng(3)
    signal = rng.normal(size=20)
    rows = torch.from_numpy(0.5 * signal + rng.normal(size=(200, 20)))
    rows[:, 0] = torch.from_numpy(50 * rng.normal(size=200))  # says nothing, and is all one sees
    prompts = torch.arange(200)
    plain, even = (float(along_others(kind(rows), prompts).mean()) for kind in (units, lambda r: evened(units(r))))
    assert even > 3 * abs(plain)


def test_a_pair_without_a_gradient_lies_nowhere():
    rows = torch.cat([random_rows(4, pairs=5), torch.zeros(1, 6)])
    assert float(along_others(evened(units(rows)), torch.arange(6))[5]) == 0.0
