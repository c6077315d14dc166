"""The courtesy pairs: enough of them, varied, balanced in length, split by prompt."""

from collections import Counter

import pytest

from gapo.pairs.formats import load_pairs


@pytest.fixture(scope="module")
def splits():
    return load_pairs("courtesy:train", strict=True), load_pairs("courtesy:test", strict=True)


def test_there_are_enough_and_no_prompt_is_in_both(splits):
    train, test = splits
    assert len(train) >= 320
    assert len(test) >= 60
    prompts = [pair.prompt.lower() for part in splits for pair in part]
    assert len(set(prompts)) == len(prompts)


def test_length_does_not_give_the_label_away(splits):
    for part in splits:
        longer = sum(len(p.chosen) > len(p.rejected) for p in part) / len(part)
        assert 0.42 < longer < 0.58
    pairs = [pair for part in splits for pair in part]
    assert sum(len(p.chosen) for p in pairs) / sum(len(p.rejected) for p in pairs) == pytest.approx(1, abs=0.02)


def test_topics_and_openings_are_varied(splits):
    train, test = splits
    assert len({pair.subset for pair in train}) >= 15
    assert {pair.subset for pair in test} == {pair.subset for pair in train}
    for side in ("chosen", "rejected"):
        openings = Counter(" ".join(getattr(pair, side).split()[:3]) for pair in train)
        assert openings.most_common(1)[0][1] <= 10


def test_lengths_vary(splits):
    words = [len(pair.chosen.split()) for pair in splits[0]]
    assert min(words) < 20
    assert max(words) > 40
