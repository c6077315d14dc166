"""Pairs with a second opinion: from the package's annotations, and from files."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from gapo.errors import InputError
from gapo.pairs import judges_wheel
from gapo.pairs.files import save_pairs
from gapo.pairs.formats import load_pairs
from gapo.pairs.judged import agreed, judged_pairs
from gapo.pairs.judges_wheel import ANNOTATIONS, WHEEL, is_held_out, two_judges
from gapo.storage import cache_folder, sha256

DATA = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "judges"


def annotated(prompt, one, two, preference, **more):
    return {"instruction": prompt, "output_1": one, "output_2": two, "preference": preference, **more}


GPT4 = [
    annotated("Say hello.", "Hello!", "Go away.", 1),
    annotated("Add.", "3", "4", 2, input="1 + 3"),
    annotated("A draw?", "yes", "no", 0),
    annotated("Same?", "yes", "yes", 1),
    annotated("Alone?", "yes", "no", 1),
    annotated("Undecided?", "yes", "no", 1),
    annotated("Numbers?", 3, 2, 1),
    annotated("Empty?", "yes", " ", 1),
]
CLAUDE = [
    annotated("Say hello.", "Go away.", "Hello!", 2),  # the other way round, the same choice
    annotated("Add. \n1 + 3", "3", "4", 1),  # the input inside the instruction, the other choice
    annotated("A draw?", "yes", "no", 1),
    annotated("Undecided?", "yes", "no", 1),
    annotated("Undecided?", "no", "yes", 1),
    annotated("Empty?", "yes", " ", 1),
]


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """A package with these annotations, in the cache, so that nothing is fetched."""
    monkeypatch.setenv("GAPO_CACHE", str(tmp_path / "cache"))
    target = cache_folder("wheels", WHEEL.wheel)
    target.parent.mkdir(parents=True)
    with zipfile.ZipFile(target, "w") as archive:
        for judge, annotations in (("gpt4", GPT4), ("claude", CLAUDE)):
            archive.writestr(ANNOTATIONS.format(judge), json.dumps(annotations))
    monkeypatch.setattr(judges_wheel, "WHEEL", replace(WHEEL, sha256=sha256(target)))
    return target


def test_the_first_judge_labels_and_the_second_agrees_or_not(wheel):
    rows = list(two_judges(wheel, "gpt4", "claude"))
    assert rows == [
        {"prompt": "Say hello.", "chosen": "Hello!", "rejected": "Go away.", "subset": "agree"},
        {"prompt": "Add.\n\n1 + 3", "chosen": "4", "rejected": "3", "subset": "disagree"},
    ]
    assert [row["chosen"] for row in two_judges(wheel, "claude", "gpt4")] == ["Hello!", "3"]


def test_the_set_is_named_and_split_by_prompt(wheel):
    found = [pair for split in ("train", "test") for pair in _of(split)]
    assert sorted(pair.prompt for pair in found) == ["Add.\n\n1 + 3", "Say hello."]
    assert all(is_held_out(pair.prompt) == (pair in _of("test")) for pair in found)
    with pytest.raises(InputError, match="the set 'judges' has no split 'tset'; did you mean 'test'"):
        load_pairs("judges:tset")


def _of(split):
    try:
        return list(load_pairs(f"judges:{split}"))
    except InputError:  # two prompts may be on one side
        return []


def test_a_fifth_of_the_prompts_is_held_out_whatever_their_white_space():
    held = [is_held_out(f"prompt {i}") for i in range(2000)]
    assert sum(held) == pytest.approx(400, abs=60)
    assert is_held_out(" prompt\n\n7 ") == is_held_out("prompt 7")


def test_an_unknown_judge_is_answered(wheel):
    with pytest.raises(InputError, match="unknown judge 'gpt5'; did you mean 'gpt4'"):
        list(two_judges(wheel, "gpt5", "claude"))


def test_files_carry_the_second_opinion(tmp_path):
    rows = [
        {"prompt": "a", "chosen": "b", "rejected": "c", "claude_agrees": True},
        {"prompt": "a", "chosen": "b", "rejected": "d", "claude_agrees": False},
        {"prompt": "a", "chosen": "", "rejected": "d", "claude_agrees": False},
    ]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for source in (tmp_path, tmp_path / "train.jsonl"):
        pairs = judged_pairs(source)
        assert list(agreed(pairs).values()) == [True, False]
        assert agreed(pairs).keys() == set(pairs.ids) == set(load_pairs(source).ids)
        assert len(pairs.bad_rows) == 1
    save_pairs(pairs, tmp_path / "again.jsonl")
    assert agreed(judged_pairs(tmp_path / "again.jsonl")) == agreed(pairs)
    assert len(judged_pairs(tmp_path, limit=1)) == 1


def test_a_pair_without_a_second_opinion_is_named(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"prompt": "a", "chosen": "b", "rejected": "c"}\n')
    with pytest.raises(InputError, match=r"x\.jsonl:1\) has no second opinion; its row needs claude_agrees"):
        judged_pairs(tmp_path / "x.jsonl")
    with pytest.raises(InputError, match="does not exist"):
        judged_pairs(tmp_path / "y.jsonl")


def test_the_real_set_agrees_on_three_in_four():
    if not DATA.exists():
        pytest.skip("the judges' pairs are not beside the project; they are never shipped")
    marks = list(agreed(judged_pairs(DATA)).values())
    assert (len(marks), sum(marks)) == (2988, 2208)
