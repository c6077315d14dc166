"""Answer files: the official forms, read and written, and what is said of a file that does not fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gapo.errors import InputError
from gapo.evaluate.answers import Answers, read_answers, write_answers
from gapo.evaluate.questions import Bench, Question, version_of

ALPACA = [
    {"dataset": "koala", "instruction": "Why is it?", "output": "Because – so.", "generator": "mine"},
    {"dataset": "oasst", "instruction": "Who?\n", "output": "", "generator": "mine"},
]
ARENA = [
    {
        "question_id": "0",
        "answer_id": "ndKLaFQXbU4eujaZBGjGZJ",
        "model_id": "mine",
        "choices": [{"index": 0, "turns": [{"content": "Because – so.", "token_len": 3}]}],
        "tstamp": 1711397284.101236,
    },
    {
        "question_id": "1",
        "answer_id": "ZXTnRiSRajtL32tSg43XCZ",
        "model_id": "mine",
        "choices": [{"index": 0, "turns": [{"content": "", "token_len": 0}]}],
        "tstamp": 1711397070.4133694,
    },
]
PLAIN = [
    {"id": "0", "prompt": "Why is it?", "output": "Because – so.", "model": "mine"},
    {"id": "1", "prompt": "Who?\n", "output": "", "model": "mine"},
]


def bench(name: str) -> Bench:
    questions = (Question("0", "Why is it?", "koala"), Question("1", "Who?\n", "oasst"))
    return Bench(name, questions, "", {}, version_of(questions), False)


def jsonl(rows: list[dict[str, object]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


FILES = {
    "alpacaeval": ("a.json", json.dumps(ALPACA), ALPACA),
    "arena-hard": ("a.jsonl", jsonl(ARENA), ARENA),
    "mine.txt": ("a.jsonl", jsonl(PLAIN), PLAIN),
}


@pytest.mark.parametrize("name", FILES)
def test_official_examples_come_back_as_they_were(name: str, tmp_path: Path) -> None:
    file, text, rows = FILES[name]
    (tmp_path / file).write_text(text)
    answers = read_answers(tmp_path / file, bench(name))
    assert (answers.model, answers.by_id) == ("mine", {"0": "Because – so.", "1": ""})
    out = tmp_path / "again" / file
    write_answers(answers, bench(name), out)
    content = out.read_text()
    written = json.loads(content) if file == "a.json" else [json.loads(line) for line in content.splitlines()]
    made_new = {"answer_id", "tstamp"}  # Arena-Hard's are of the writing
    assert [{k: v for k, v in row.items() if k not in made_new} for row in written] == [
        {k: v for k, v in row.items() if k not in made_new} for row in rows
    ]
    assert [list(row) for row in written] == [list(row) for row in rows]
    if name == "arena-hard":
        assert all(isinstance(row["tstamp"], float) and len(row["answer_id"]) == 22 for row in written)
    assert read_answers(out, bench(name)).by_id == answers.by_id


def test_arena_answers_as_they_are_kept_now(tmp_path: Path) -> None:
    rows = [
        {
            "uid": str(i),
            "model": "m",
            "messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": c}],
        }
        for i, c in enumerate([{"answer": "yes"}, "no"])
    ]
    (tmp_path / "a.jsonl").write_text(jsonl(rows))
    assert read_answers(tmp_path / "a.jsonl", bench("arena-hard")).by_id == {"0": "yes", "1": "no"}


def test_how_they_were_made_stays_beside_them(tmp_path: Path) -> None:
    answers = Answers("m", "alpacaeval", {"0": "a", "1": "b"}, {"temperature": 0.7}, None, notes={"cut": 1})
    write_answers(answers, bench("alpacaeval"), tmp_path / "m.json")
    about = json.loads((tmp_path / "m.about.json").read_text())
    assert (about["decoding"], about["bench_version"]) == ({"temperature": 0.7}, bench("x").version)
    again = read_answers(tmp_path / "m.json", bench("alpacaeval"))
    assert (again.decoding, again.notes) == ({"temperature": 0.7}, {"cut": 1})


def test_more_answers_than_questions_are_no_matter(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps([*ALPACA, {**ALPACA[0], "instruction": "Other?"}]))
    assert len(read_answers(tmp_path / "a.json", bench("alpacaeval")).by_id) == 2


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (PLAIN[:1], r"has no answer to 1 of the 2 questions of b\.txt \(the first: 1 'Who\?'\)"),
        ([*PLAIN, PLAIN[0]], r"answers 0 'Why is it\?' twice \(a\.jsonl:1 and a\.jsonl:3\)"),
        ([PLAIN[0], PLAIN[1] | {"model": "other"}], r"answers of several models \(mine, other\)"),
        ([PLAIN[0] | {"prompt": "Else?"}], r"a\.jsonl:1 answers another question under the id '0'"),
        ([{"id": "0", "text": "a"}], r"a\.jsonl:1 has no answer; it needs a text under output"),
        ([{"output": "a"}], r"a\.jsonl:1 does not say what it answers"),
        ([{"question_id": "0", "choices": []}], r"a\.jsonl:1 is no answer of Arena-Hard"),
    ],
)
def test_a_file_that_does_not_fit_is_one_sentence(rows: list[dict[str, object]], words: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(jsonl(rows))
    with pytest.raises(InputError, match=words):
        read_answers(tmp_path / "a.jsonl", bench("b.txt"))
