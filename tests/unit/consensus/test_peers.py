"""Who judges whom: pairs of one kind among themselves, where what is preferred differs between kinds."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gapo.consensus.judging import judged
from gapo.consensus.peers import FEWEST, SUBSET, WHOLE, aligned, along_peers, as_rows, groups_of, kinds_of, peers
from gapo.consensus.scope import AGREED, ALL
from gapo.diagnostics.label_check import label_check
from gapo.diagnostics.ranking import area_under_roc
from gapo.errors import InputError
from gapo.pairs.pair import PairSet, PreferencePair
from gapo.report.label_words import apart_sentence

WIDTH = 32


def kinds(sizes, strength=0.4, wrong=0.2, seed=0):
    """Sketches of several kinds of pairs, each kind with a preference opposite to the one before, and what is wrong."""
    rng = np.random.default_rng(seed)
    names = np.repeat(np.arange(len(sizes)), sizes)
    flipped = rng.random(len(names)) < wrong
    right = strength * np.where(names % 2, -1.0, 1.0)[:, None] * np.eye(WIDTH)[0]
    rows = right + rng.normal(size=(len(names), WIDTH)) / np.sqrt(WIDTH)
    sketches = torch.from_numpy(np.where(flipped, -1, 1)[:, None] * rows).float()
    return sketches, [f"kind {name}" for name in names], flipped


def test_kinds_that_prefer_the_opposite_hide_each_others_wrong_labels():
    sketches, names, flipped = kinds((300, 300))
    prompts = torch.arange(len(names))
    together, apart = (judged(sketches, prompts, groups=groups) for groups in (None, names))
    mixed, told = (area_under_roc(-found.alignment.numpy(), flipped) for found in (together, apart))
    assert mixed < 0.6
    assert told > 0.85
    assert apart.mixture.rate == pytest.approx(flipped.mean(), abs=0.07)
    assert together.mixture.rate > 0.3


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1000), st.integers(FEWEST, 100), st.integers(FEWEST, 100), st.integers(1, FEWEST - 1))
def test_a_kind_judges_itself_and_a_small_one_is_judged_by_all(seed, first, second, few):
    sketches, names, _ = kinds((first, second, few), seed=seed)
    prompts = torch.arange(len(names)) // 2
    found = judged(sketches, prompts, ALL, names).alignment
    edges = np.cumsum((0, first, second))
    for start, end in pairwise(edges):
        alone = aligned(as_rows(sketches[start:end], ALL), prompts[start:end], ALL)
        torch.testing.assert_close(found[start:end], alone, rtol=0, atol=0)
    everyone = aligned(as_rows(sketches, ALL), prompts, ALL)
    torch.testing.assert_close(found[edges[-1] :], everyone[edges[-1] :], rtol=0, atol=0)


@pytest.mark.parametrize("names", [["one"] * 80, [None] * 80])
def test_one_kind_is_everyone(names):
    sketches, _, _ = kinds((80,))
    prompts = torch.arange(80)
    torch.testing.assert_close(judged(sketches, prompts, groups=names).alignment, judged(sketches, prompts).alignment)


@pytest.mark.parametrize("lead", [AGREED, ALL])
def test_a_turned_label_turns_its_sketch(lead):
    sketches, names, _ = kinds((70, 90, 10))
    prompts = torch.arange(len(names))
    sign = torch.from_numpy(np.random.default_rng(1).choice([-1.0, 1.0], len(names)))
    ready = peers(sketches, lead, names)
    turned = peers(sketches * sign[:, None].float(), lead, names)
    torch.testing.assert_close(along_peers(ready, prompts, lead, sign), along_peers(turned, prompts, lead))


def test_the_check_on_known_flips_judges_as_the_search_does():
    sketches, names, _ = kinds((300, 300), wrong=0.0)
    prompts = torch.arange(len(names))
    assert label_check(sketches, prompts).verdict == "none"
    assert label_check(sketches, prompts, groups=names).verdict == "strong"


def pair_set(subsets):
    return PairSet(
        [PreferencePair(f"p{k}", "yes", "no", subset=name) for k, name in enumerate(subsets)], name="pairs.jsonl"
    )


def test_groups_are_the_subsets_of_the_pairs_where_that_is_asked_for():
    assert groups_of(pair_set(["a", None, "b"]), SUBSET) == ["a", None, "b"]
    assert groups_of(pair_set(["a", None, "b"]), WHOLE) is None
    assert groups_of(None, WHOLE) is None


@pytest.mark.parametrize("pairs", [pair_set([None, None]), None])
def test_pairs_without_a_subset_cannot_be_judged_within_one(pairs):
    with pytest.raises(InputError, match=r"has a `subset`.*or judge all of them together"):
        groups_of(pairs, SUBSET)


def test_an_unknown_way_is_answered_with_the_known_ones():
    with pytest.raises(InputError, match=r"--within must be one of all, subset, not 'subsets'"):
        groups_of(pair_set(["a"]), "subsets", "--within")


def test_kinds_are_told_apart_where_one_of_them_could_judge_itself():
    both = ["a"] * FEWEST + ["b"] * 3
    assert kinds_of(pair_set(both)) == both
    assert kinds_of(pair_set(["a"] * (FEWEST - 1) + ["b"] * 3)) is None
    assert kinds_of(pair_set(["a"] * FEWEST)) is None  # all there is
    assert kinds_of(pair_set([None] * FEWEST)) is None


@pytest.mark.parametrize(("apart", "said"), [((0.6, 0.7), True), ((0.54, 0.7), False), (None, False)])
def test_an_audit_says_that_kinds_had_better_be_judged_apart_where_every_draw_does(apart, said):
    together = {"area": 0.5, "low": 0.45, "high": 0.55}
    other = {"area": 0.65, "low": apart[0], "high": apart[1]} if apart else None
    sentence = apart_sentence({"check": together, "apart": other})
    assert (sentence is not None) == said
    if said:
        assert "an area of 0.65 instead of 0.50" in sentence
        assert "--within subset" in sentence
    assert apart_sentence({"check": together}) is None  # of an audit made before
