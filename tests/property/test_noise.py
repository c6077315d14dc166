"""Laws of flipping that hold for every set, rate and seed."""

from __future__ import annotations

import warnings

from hypothesis import given
from hypothesis import strategies as st

from gapo.pairs.noise import FLIP_RULES, flip
from gapo.pairs.pair import PairSet, PreferencePair

words = st.text(min_size=1, max_size=6)
marks = st.sampled_from([None, True, False])
one_pair = st.builds(PreferencePair, prompt=words, chosen=words, rejected=words, flipped=marks)
pair_sets = st.lists(one_pair, min_size=1, max_size=40).map(lambda pairs: PairSet(tuple(pairs)))
rates = st.floats(0, 1)
seeds = st.integers(0, 2**32)
kinds = st.sampled_from(sorted(FLIP_RULES))


def quiet_flip(pairs: PairSet, rate: float, kind: str, seed: int) -> tuple[PairSet, tuple[bool, ...]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # too few long answers is no news here
        return flip(pairs, rate, kind, seed)


@given(pair_sets, rates, seeds)
def test_random_flips_exactly_the_rounded_share(pairs: PairSet, rate: float, seed: int) -> None:
    assert sum(flip(pairs, rate, seed=seed)[1]) == round(rate * len(pairs))


@given(pair_sets, rates, kinds, seeds)
def test_the_mask_says_which_pairs_were_swapped(pairs: PairSet, rate: float, kind: str, seed: int) -> None:
    noisy, mask = quiet_flip(pairs, rate, kind, seed)
    for old, new, now in zip(pairs, noisy, mask, strict=True):
        assert (new.chosen, new.rejected) == ((old.rejected, old.chosen) if now else (old.chosen, old.rejected))
        assert new.flipped is (bool(old.flipped) ^ now)


@given(pair_sets, rates, kinds, seeds)
def test_ids_prompts_and_order_stay(pairs: PairSet, rate: float, kind: str, seed: int) -> None:
    noisy, _ = quiet_flip(pairs, rate, kind, seed)
    assert noisy.ids == pairs.ids
    assert [pair.prompt for pair in noisy] == [pair.prompt for pair in pairs]


@given(pair_sets, rates, seeds)
def test_the_same_flip_twice_restores_the_set(pairs: PairSet, rate: float, seed: int) -> None:
    clean, _ = flip(pairs, 0)
    once, mask = flip(clean, rate, seed=seed)
    twice, same_mask = flip(once, rate, seed=seed)
    assert mask == same_mask
    assert twice == clean


@given(pair_sets, rates, rates, kinds, seeds)
def test_flips_at_a_low_rate_are_among_those_at_a_higher_one(
    pairs: PairSet, one: float, other: float, kind: str, seed: int
) -> None:
    few, many = (quiet_flip(pairs, rate, kind, seed)[1] for rate in sorted((one, other)))
    assert all(in_many for in_few, in_many in zip(few, many, strict=True) if in_few)


@given(pair_sets, rates, seeds)
def test_the_length_rule_flips_longer_chosen_only_and_as_many_as_it_can(pairs: PairSet, rate: float, seed: int) -> None:
    _, mask = quiet_flip(pairs, rate, "length", seed)
    longer = [len(pair.chosen) > len(pair.rejected) for pair in pairs]
    assert all(is_longer for is_longer, now in zip(longer, mask, strict=True) if now)
    assert sum(mask) == min(round(rate * len(pairs)), sum(longer))


@given(st.integers(0, 10_000))
def test_seeds_repeat_and_differ(seed: int) -> None:
    pairs = PairSet(tuple(PreferencePair(str(i), "a", "b") for i in range(100)))
    assert flip(pairs, 0.5, seed=seed)[1] == flip(pairs, 0.5, seed=seed)[1]
    assert flip(pairs, 0.5, seed=seed)[1] != flip(pairs, 0.5, seed=seed + 1)[1]
