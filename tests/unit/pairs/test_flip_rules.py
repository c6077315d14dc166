"""Flip rules by example; the laws are in tests/property/test_noise.py."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from gapo.errors import InputError
from gapo.pairs.files import save_pairs
from gapo.pairs.formats import load_pairs
from gapo.pairs.noise import FLIP_RULES, flip
from gapo.pairs.pair import PairSet, PreferencePair

TEN = PairSet(tuple(PreferencePair(f"p{i}", "long answer" if i < 3 else "no", "short") for i in range(10)))


def test_flipped_pairs_are_swapped_marked_and_keep_their_ids() -> None:
    noisy, mask = flip(TEN, 0.3)
    assert sum(mask) == 3
    assert noisy.flipped == mask
    assert noisy.ids == TEN.ids
    for old, new, now in zip(TEN, noisy, mask, strict=True):
        assert (new.chosen, new.rejected) == ((old.rejected, old.chosen) if now else (old.chosen, old.rejected))


@pytest.mark.parametrize(("rate", "kind"), [(0.0, "random"), (0.5, "none"), (0.0, "length")])
def test_nothing_flipped_is_still_marked_clean(rate: float, kind: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        noisy, mask = flip(TEN, rate, kind)
    assert mask == noisy.flipped == (False,) * 10


def test_length_flips_all_it_finds_and_warns_with_both_numbers() -> None:
    with pytest.warns(UserWarning, match="found only 3 pairs where 5 were asked for") as caught:
        _, mask = flip(TEN, 0.5, "length")
    assert mask == (True,) * 3 + (False,) * 7
    assert caught[0].filename == __file__


def test_a_pair_flipped_twice_is_clean_again() -> None:
    once, _ = flip(TEN, 1.0)
    twice, _ = flip(once, 1.0)
    assert once.flipped == (True,) * 10
    assert twice.flipped == (False,) * 10
    assert [pair.chosen for pair in twice] == [pair.chosen for pair in TEN]


def test_flip_accepts_whatever_load_pairs_accepts(tmp_path: Path) -> None:
    save_pairs(TEN, tmp_path / "ten.jsonl")
    assert flip(tmp_path / "ten.jsonl", 0.3) == flip(list(TEN.rows()), 0.3) == flip(load_pairs(TEN), 0.3)


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_a_rate_outside_0_to_1_is_refused(rate: float) -> None:
    with pytest.raises(InputError, match="must lie between 0 and 1"):
        flip(TEN, rate)


def test_wrong_names_and_seeds_are_answered() -> None:
    with pytest.raises(InputError, match="unknown flip rule 'lenght'; did you mean 'length'"):
        flip(TEN, 0.1, "lenght")
    with pytest.raises(InputError, match="known: length, none, random"):
        flip(TEN, 0.1, "xyz")
    with pytest.raises(InputError, match="seed must be 0 or more"):
        flip(TEN, 0.1, seed=-1)


def test_a_new_rule_is_one_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FLIP_RULES, "first", lambda pairs, rng: list(range(len(pairs))))
    assert flip(TEN, 0.2, "first")[1] == (True, True) + (False,) * 8


@pytest.mark.parametrize("seed", [0, 3])
def test_the_flips_of_a_seed_are_the_same_in_every_release(seed: int) -> None:
    """The first of numpy's permutation under [seed, 1]: published noise must stay what it was."""
    order = np.random.default_rng([seed, 1]).permutation(10)
    _, mask = flip(TEN, 0.4, seed=seed)
    assert {place for place, now in enumerate(mask) if now} == set(order[:4].tolist())


def test_untold_the_rule_is_random_and_the_seed_zero() -> None:
    assert flip(TEN, 0.3) == flip(TEN, 0.3, "random", 0) != flip(TEN, 0.3, "random", 1)
