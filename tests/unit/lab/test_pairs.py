"""The shipped pairs: true labels that cannot be read off the lengths."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from gapo.lab.choose import LEAST_DIFFERENCE, choose_pairs
from gapo.lab.load import pairs_file, write_pairs
from gapo.lab.split import split_requests
from gapo.lab.world import quality

PARTS = ("train", "test")


def gain(pair) -> float:
    return quality(pair.prompt, pair.chosen) - quality(pair.prompt, pair.rejected)


def extra_words(pair) -> int:
    return len(pair.chosen.split()) - len(pair.rejected.split())


def test_sizes(shipped):
    assert (len(shipped["train"]), len(shipped["test"])) == (3200, 800)
    assert sum(pairs_file(part).stat().st_size for part in PARTS) < 400_000


def test_train_and_test_share_no_prompt(shipped):
    prompts = [pair.prompt for part in PARTS for pair in shipped[part]]
    assert len(prompts) == len(set(prompts))


@pytest.mark.parametrize("part", PARTS)
def test_every_label_is_true(shipped, part):
    assert min(map(gain, shipped[part])) >= LEAST_DIFFERENCE


@pytest.mark.parametrize("part", PARTS)
def test_the_longer_reply_is_chosen_half_of_the_time(shipped, part):
    assert 0.48 <= np.mean([extra_words(pair) > 0 for pair in shipped[part]]) <= 0.52


@pytest.mark.parametrize("part", PARTS)
def test_the_difference_in_length_says_nothing_about_the_difference_in_quality(shipped, part):
    lengths = [extra_words(pair) for pair in shipped[part]]
    assert abs(spearmanr(lengths, [gain(pair) for pair in shipped[part]]).statistic) < 0.1
    assert np.mean(np.abs(lengths)) > 3  # and lengths do differ


@pytest.mark.parametrize("part", PARTS)
def test_the_seed_gives_the_shipped_prompts(shipped, part):
    requests = getattr(split_requests(seed=0), part)[:20]
    assert [request.prompt for request in requests] == [pair.prompt for pair in shipped[part][:20]]


def test_pairs_chosen_anew_follow_the_same_rules(started):
    model, tokenizer = started
    prompts = [request.prompt for request in split_requests(seed=0).train[:20]]
    pairs = choose_pairs(model, tokenizer, prompts, seed=1)
    assert [pair.prompt for pair in pairs] == prompts
    assert [extra_words(pair) > 0 for pair in pairs] == [i % 2 == 0 for i in range(20)]
    assert min(map(gain, pairs)) >= LEAST_DIFFERENCE


def test_the_same_pairs_are_the_same_bytes(shipped, tmp_path):
    for part in PARTS:
        write_pairs(shipped[part], tmp_path / part)
        assert (tmp_path / part).read_bytes() == pairs_file(part).read_bytes()
