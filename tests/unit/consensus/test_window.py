"""The running direction: who judges whom, how far back, and when it speaks."""

import numpy as np
import pytest
import torch

from gapo.consensus.direction import units
from gapo.consensus.window import SHORTEST, Window

SIZE = 32
FORTH = np.ones(SIZE) / np.sqrt(SIZE)  # no bucket stands out, or evening would level it
ASIDE = np.resize([1, -1], SIZE) / np.sqrt(SIZE)


def pairs(count, strength=1.0, wrong=0.0, seed=0, direction=None):
    """Sketches around a direction, some with the other sign, and which."""
    rng = np.random.default_rng(seed)
    direction = FORTH if direction is None else direction
    flipped = rng.random(count) < wrong
    rows = strength * direction + rng.normal(size=(count, SIZE)) / np.sqrt(SIZE)
    return torch.from_numpy(np.where(flipped, -1, 1)[:, None] * rows).float(), flipped


def filled(count=256, step=32, **how):
    window = Window()
    sketches, _ = pairs(count, **how)
    for start in range(0, count, step):
        window.add(sketches[start : start + step], torch.arange(start, start + step))
    return window


def test_a_new_window_knows_nothing_and_doubts_nobody():
    window = Window()
    found = window.alignments(pairs(3)[0], torch.arange(3))
    assert not found.any()
    assert not window.wrong(found).any()


def test_new_pairs_are_held_against_the_rows_in_the_window():
    window = filled()
    new, _ = pairs(4, seed=9)
    length = window.length
    rows = window.rows[-length:]
    size = rows.square().mean(0).sqrt()
    even = units(rows / size).double().numpy()
    expected = [unit @ even.sum(0) / np.linalg.norm(even.sum(0)) for unit in units(units(new) / size).double().numpy()]
    np.testing.assert_allclose(window.alignments(new, torch.arange(1000, 1004)).numpy(), expected, rtol=1e-5)


def test_a_pair_seen_before_has_no_part_in_its_own_direction():
    window = filled()
    again, name = window.rows[-1:] * 3.0, window.prompts[-1:]
    without = Window(rows=window.rows[:-1], prompts=window.prompts[:-1])
    own = window.alignments(again, name, len(window))
    stranger = window.alignments(again, torch.tensor([10_000]), len(window))
    apart = without.alignments(again, name, len(without))
    assert float(own) == pytest.approx(float(apart), rel=2e-2)  # the buckets' sizes differ by one pair
    assert float(stranger) > float(own)


def test_wrong_labels_are_doubted_more():
    window = filled(512, wrong=0.2)
    new, flipped = pairs(200, wrong=0.2, seed=5)
    doubt = window.wrong(window.alignments(new, torch.arange(5000, 5200))).numpy()
    assert doubt[flipped].mean() > 0.8
    assert doubt[~flipped].mean() < 0.1
    assert window.mixture.rate == pytest.approx(0.2, abs=0.05)


def test_without_a_common_direction_nobody_is_doubted():
    window = filled(512, strength=0.0)
    assert window.mixture is None


def test_it_is_silent_while_it_is_young():
    assert filled(SHORTEST - 32).mixture is None


def test_old_pairs_are_left_behind_where_the_direction_has_turned():
    turned = filled(512)
    sketches, _ = pairs(512, seed=3, direction=ASIDE)
    for start in range(0, 512, 32):
        turned.add(sketches[start : start + 32], torch.arange(2000 + start, 2032 + start))
    assert turned.length <= 512
    steady = filled(1024)
    assert steady.length >= 512


def test_it_forgets_what_is_beyond_its_length():
    window = Window(longest=100)
    for start in range(0, 200, 40):
        window.add(pairs(40, seed=start)[0], torch.arange(start, start + 40))
    assert len(window) == len(window.prompts) == 100
    assert int(window.prompts[0]) == 100


def test_a_window_is_the_same_after_a_checkpoint():
    window = filled(256, wrong=0.2)
    other = Window()
    other.load(window.state())
    other.mixture = window.mixture
    new = pairs(32, seed=7)[0]
    for one in (window, other):
        one.add(new, torch.arange(900, 932))
    assert torch.equal(window.rows, other.rows)
    assert window.mixture == other.mixture
    assert window.merits == other.merits
