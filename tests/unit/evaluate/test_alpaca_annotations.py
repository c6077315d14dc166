"""annotations.json of the alpaca_eval package: read, matched, refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gapo.errors import InputError
from gapo.evaluate import alpaca_annotations
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


def test_a_verdict_holds_what_its_row_says(written, references):
    raws = ["m", {"choices": [1]}, None, 3]
    path = written(*(annotation(i, 1.75, raw_completion=raw) for i, raw in zip(INSTRUCTIONS, raws, strict=True)))
    judging = read_annotations(path, references)
    assert [v.text for v in judging.verdicts] == ["m", '{"choices": [1]}', "", "3"]
    first = judging.verdicts[0]
    assert (first.id, first.game, first.swapped, first.preference, first.weight) == ("0", 0, False, 0.75, 1)
    assert (first.status, first.key, first.ours, first.theirs, first.subset) == ("ok", "", 6, 4, "koala")
    assert judging.decoding == {}
    assert judging.judge_says == "gpt-4-1106-preview"
    assert judging.judge_options == {"annotations": path.name, "annotator": "weighted_alpaca_eval_gpt4_turbo"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [(1, 0.0), (1.0, 0.0), (2, 1.0), (1.25, 0.25), (0, 0.5), (0.0, 0.5), (1.5, 0.5), (None, None)],
)
def test_a_preference_runs_from_one_to_two(written, references, given, expected):
    (verdict,) = read_annotations(written(annotation("Why?", given)), references).verdicts
    assert verdict.preference == expected
    assert verdict.status == ("failed" if expected is None else "ok")


@pytest.mark.parametrize("given", [0.99, 2.01, -1, True, False, [1.5], "1.5", float("inf")])
def test_any_other_preference_is_refused(written, references, given):
    with pytest.raises(InputError, match="question 2 has the preference"):
        read_annotations(written(annotation("Why?", given)), references)


def test_rows_without_an_annotator_have_an_unknown_judge(written, references):
    row = annotation("Why?", 2)
    del row["annotator"]
    judging = read_annotations(written(row), references)
    assert (judging.judge, judging.judge_says, judging.prompt) == ("unknown", "", "unknown@alpaca_eval")
    assert judging.judge_options["annotator"] == ""


@pytest.mark.parametrize(("official", "rows", "complete"), [(True, 4, True), (True, 3, False), (False, 4, False)])
def test_a_judging_is_complete_with_every_question_of_the_official_list(
    written, references, monkeypatch, official, rows, complete
):
    known = replace(alpaca_annotations.bench_named("alpacaeval", data_dir=references), complete=official)
    monkeypatch.setattr(alpaca_annotations, "bench_named", lambda name, data_dir: known)
    judging = read_annotations(written(*(annotation(i, 2) for i in INSTRUCTIONS[:rows])), references)
    assert (judging.bench, judging.complete) == ("alpacaeval", complete)


def test_one_instruction_of_anothers_makes_it_no_alpacaeval(written, references):
    judging = read_annotations(written(annotation("Why?", 2), annotation("Else?", 2, dataset=None)), references)
    assert (judging.bench, judging.complete) == ("annotations.json", False)
    assert [(v.id, v.subset) for v in judging.verdicts] == [("0", "koala"), ("1", "")]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "cannot be read as JSON"),
        ('{"instruction": "Why?"}', "is no list of annotations"),
        ("[1]", "row 1 has no instruction"),
        (json.dumps([annotation("Why?", 1), {"instruction": "Say it.", "output_1": "a"}]), "row 2 has no output_2"),
    ],
)
def test_a_file_of_another_kind_is_named(tmp_path, references, text, says):
    (tmp_path / "annotations.json").write_text(text)
    with pytest.raises(InputError, match=says):
        read_annotations(tmp_path / "annotations.json", references)


def test_of_many_values_where_one_is_meant_three_are_shown(written, references):
    rows = [annotation(i, 2, generator_1=f"model{place}") for place, i in enumerate(INSTRUCTIONS)]
    with pytest.raises(InputError, match=r"generator_1 \(model0, model1, model2\); keep"):
        read_annotations(written(*rows), references)
