"""Subsets keep the order of the set, and do not depend on it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gapo.errors import InputError
from gapo.pairs.noise import flip
from gapo.pairs.pair import PairSet, PreferencePair
from gapo.pairs.select import select

FIVE = PairSet(tuple(PreferencePair(f"p{i}", "a", "b", id=name) for i, name in enumerate("edcba")))
SCORES = [3.0, 1.0, 2.0, 1.0, 5.0]


def test_the_lowest_and_the_highest_come_in_their_old_order() -> None:
    assert select(FIVE, SCORES, 0.6).ids == ("d", "c", "b")
    assert select(FIVE, SCORES, 0.4, keep="highest").ids == ("e", "a")
    assert select(FIVE, SCORES, 1.0) == FIVE


def test_scores_by_id_and_by_position_say_the_same() -> None:
    by_id = dict(zip(FIVE.ids, SCORES, strict=True)) | {"elsewhere": 0.0}
    assert select(FIVE, by_id, 0.4) == select(FIVE, SCORES, 0.4) == select(FIVE, np.array(SCORES), 0.4)  # type: ignore[arg-type]


def test_ties_go_by_id_whatever_the_order() -> None:
    assert select(FIVE, [0.0] * 5, 0.4).ids == ("b", "a")
    assert select(FIVE, [0.0] * 5, 0.4, keep="highest").ids == ("b", "a")
    backwards = FIVE.take(reversed(range(5)))
    assert set(select(backwards, SCORES[::-1], 0.2).ids) == set(select(FIVE, SCORES, 0.2).ids) == {"b"}


def test_random_is_seeded_and_reads_no_scores() -> None:
    picks = {select(FIVE, [], 0.4, keep="random", seed=seed).ids for seed in range(20)}
    assert len(picks) > 1
    assert select(FIVE, [], 0.4, keep="random", seed=3) == select(FIVE, SCORES, 0.4, keep="random", seed=3)
    assert all(len(ids) == 2 for ids in picks)


@pytest.mark.parametrize(
    ("scores", "fraction", "keep", "said"),
    [
        (SCORES, 0.5, "lowst", "did you mean 'lowest'?"),
        (SCORES, 0.0, "lowest", "must lie above 0"),
        (SCORES, 1.5, "lowest", "must lie above 0"),
        (SCORES, 0.05, "lowest", "keeps none of 5 pairs"),
        (SCORES[:4], 0.5, "lowest", "4 scores for 5 pairs"),
        ({"e": 1.0, "d": 1.0}, 0.5, "lowest", r"3 of 5 pairs have no score \(first: c\)"),
        ([*SCORES[:4], math.nan], 0.5, "lowest", r"1 scores are not a number \(first: pair a\)"),
    ],
)
def test_what_cannot_be_chosen_is_refused(
    scores: list[float] | dict[str, float], fraction: float, keep: str, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        select(FIVE, scores, fraction, keep)


def test_a_random_subset_does_not_follow_the_flips_of_the_same_seed() -> None:
    pairs = PairSet(tuple(PreferencePair(f"p{i}", "a", "b") for i in range(2000)))
    noisy, _ = flip(pairs, 0.2, seed=0)
    kept = select(noisy, [], 0.3, keep="random", seed=0)
    assert 0.15 < sum(map(bool, kept.flipped)) / len(kept) < 0.25
