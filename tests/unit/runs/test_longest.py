"""`data.longest`: pairs with more characters are left out before any are counted."""

import json

import pytest

from gapo.errors import InputError
from gapo.pairs.formats import load_pairs
from gapo.runs.data import characters, load_data, up_to
from gapo.runs.recipe import read_recipe, recipe_hash


def recipe(*overrides):
    return read_recipe("smollm2-courtesy", ["noise.rate=0", *overrides])


def test_the_limit_counts_short_pairs_and_evaluation_pairs_are_as_short():
    train, evaluation = load_data(recipe("data.longest=400", "data.limit=20"))
    every = load_pairs("courtesy")
    assert train.ids == tuple(pair.id for pair in every if characters(pair) <= 400)[:20]
    assert 0 < len(evaluation) < len(load_pairs("courtesy:test"))
    assert max(characters(pair) for pair in evaluation) <= 400


def test_a_bound_that_no_pair_exceeds_changes_nothing():
    pairs = load_pairs("courtesy")
    assert up_to(pairs, max(map(characters, pairs))).ids == pairs.ids


def test_pairs_of_any_length_are_the_run_without_the_key():
    assert recipe_hash(recipe("data.longest=null")) == recipe_hash(recipe())
    assert recipe_hash(recipe("data.longest=400")) != recipe_hash(recipe())


def test_a_bound_that_leaves_nothing_is_one_sentence():
    with pytest.raises(InputError, match=r"at most 3 characters; raise data\.longest"):
        load_data(recipe("data.longest=3"))


def test_a_named_set_is_read_from_the_folder_of_ones_own_wherever_it_lies(tmp_path, monkeypatch):
    row = {"prompt": "Hello?", "chosen": "Good day.", "rejected": "What."}
    hashes = set()
    for place in ("here", "there"):
        folder = tmp_path / place / "polite"
        folder.mkdir(parents=True)
        (folder / "train.jsonl").write_text(json.dumps(row) + "\n")
        (folder / "test.jsonl").write_text(json.dumps({**row, "prompt": "Bye?"}) + "\n")
        monkeypatch.setenv("GAPO_DATA", str(tmp_path / place))
        named = read_recipe("smollm2-polite", ["noise.rate=0"])
        train, evaluation = load_data(named)
        assert (train[0].prompt_text, evaluation[0].prompt_text) == ("Hello?", "Bye?")
        hashes.add(recipe_hash(named))
    assert len(hashes) == 1


def test_a_set_that_the_folder_does_not_have_is_named(tmp_path, monkeypatch):
    (tmp_path / "polish").mkdir()
    monkeypatch.setenv("GAPO_DATA", str(tmp_path))
    with pytest.raises(InputError, match=r"has no folder 'polite'; did you mean 'polish'"):
        load_pairs("polite")
