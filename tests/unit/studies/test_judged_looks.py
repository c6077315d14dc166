"""Which judged pairs the study of judges looks at."""

import pytest

from gapo.errors import InputError
from gapo.pairs.judges_wheel import AGREE, DISAGREE
from gapo.pairs.pair import PairSet, PreferencePair
from gapo.studies.judged_looks import LONGEST, drawn

PAIRS = PairSet(
    tuple(
        PreferencePair("p" * (1 + k), "a", "b" * (LONGEST if k % 5 == 0 else 1), subset=DISAGREE if k % 3 else AGREE)
        for k in range(60)
    ),
    name="judged",
)


def test_half_of_the_pairs_are_disputed_all_are_short_and_seeds_share_none():
    parts = [drawn(PAIRS, 8, seed) for seed in range(4)]
    for part in parts:
        assert [pair.subset for pair in part].count(DISAGREE) == 4
        assert all(len(pair.rejected) == 1 for pair in part)
    assert len({pair.id for part in parts for pair in part}) == 32
    assert [pair.id for pair in drawn(PAIRS, 8, 2)] == [pair.id for pair in parts[2]]


def test_more_pairs_than_there_are_is_said():
    with pytest.raises(InputError, match=r"8 pairs of seed 4 are more than there are; ask for fewer seeds"):
        drawn(PAIRS, 8, 4)
