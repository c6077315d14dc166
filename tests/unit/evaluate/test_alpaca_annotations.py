"""annotations.json of the alpaca_eval package: read, matched, refused."""

from __future__ import annotations

import json

import pytest

from gapo.errors import InputError
from gapo.evaluate.alpaca_annotations import read_annotations
from gapo.evaluate.scores import win_rate

INSTRUCTIONS = ["What is rain?", "Name a bird.", "Why?", "Say it."]


@pytest.fixture
def references(tmp_path):
    """A folder with the list of instructions, as official as four can be."""
    rows = [{"dataset": "koala", "instruction": i, "output": "It.", "generator": "gpt4"} for i in INSTRUCTIONS]
    (tmp_path / "alpaca_eval_gpt4_baseline.json").write_text(json.dumps(rows))
    return tmp_path


def annotation(instruction: str, preference, **other) -> dict:
    return {
        "instruction": instruction,
        "output_1": "four",
        "generator_1": "gpt4",
        "output_2": "sixsix",
        "generator_2": "mine",
        "dataset": "koala",
        "annotator": "weighted_alpaca_eval_gpt4_turbo",
        "preference": preference,
        "raw_completion": "m",
    } | other


@pytest.fixture
def written(tmp_path):
    def write(*rows):
        path = tmp_path / "annotations.json"
        path.write_text(json.dumps(rows))
        return path

    return write


def test_rows_find_their_question_by_its_text(written, references):
    path = written(annotation("Why?", 1.25), annotation("What is rain?", 2.0))
    judging = read_annotations(path, references)
    assert [(v.id, v.preference, v.ours, v.theirs) for v in judging.verdicts] == [("2", 0.25, 6, 4), ("0", 1.0, 6, 4)]
    assert (judging.bench, judging.model, judging.reference) == ("alpacaeval", "mine", "gpt4")
    assert (judging.judge, judging.prompt) == ("gpt-4-1106-preview", "alpaca_eval_clf@official")
    assert not judging.complete


def test_a_tie_has_two_spellings_and_nothing_is_no_verdict(written, references):
    given = [annotation(i, p) for i, p in zip(INSTRUCTIONS, [0, 1.5, None, float("nan")], strict=True)]
    found = win_rate(read_annotations(written(*given), references))
    assert (found.value, found.n, found.dropped) == (50, 2, {"failed": 2})


def test_another_annotator_keeps_its_own_name(written, references):
    judging = read_annotations(written(annotation("Why?", 2, annotator="claude")), references)
    assert (judging.judge, judging.judge_says, judging.prompt) == ("claude", "", "claude@alpaca_eval")


def test_other_instructions_are_no_alpacaeval(written, references):
    judging = read_annotations(written(annotation("Something else", 2)), references)
    assert judging.bench == "annotations.json"


def test_without_the_list_a_part_of_it_is_no_alpacaeval(written, tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    assert read_annotations(written(annotation("Why?", 2))).bench == "annotations.json"
    whole = read_annotations(written(*(annotation(f"{i}?", 2) for i in range(805))))
    assert (whole.bench, whole.complete) == ("alpacaeval", False)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([annotation("Why?", 3)], "the preference 3; it must be 0 or between 1 and 2"),
        ([annotation("Why?", "m")], "the preference 'm'"),
        ([annotation("Why?", 1), annotation("Why?", 2)], "judges an instruction twice"),
        ([annotation("Why?", 1), annotation("Say it.", 2, generator_2="other")], "several values of generator_2"),
        ([{"instruction": "Why?"}], "row 1 has no output_1"),
        ([], "is no list of annotations"),
    ],
)
def test_what_is_wrong_is_said(written, references, rows, message):
    with pytest.raises(InputError, match=message):
        read_annotations(written(*rows), references)
