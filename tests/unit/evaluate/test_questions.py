"""Which questions a bench has, and what is said of a file that is none."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from gapo.errors import InputError
from gapo.evaluate.questions import bench_named

DATA = Path(__file__).resolve().parents[3].parent / "shared" / "data"


def lines(path: Path, *rows: object) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.mark.parametrize(
    ("name", "count", "baseline"), [("alpacaeval", 805, "gpt4_1106_preview"), ("arena-hard", 500, "gpt-4-0314")]
)
def test_the_official_questions_are_known(name: str, count: int, baseline: str) -> None:
    if not (DATA / "alpacaeval2").is_dir():
        pytest.skip("the official files are not beside the project; they are never shipped")
    bench = bench_named(name, data_dir=DATA)
    assert (len(bench.questions), bench.baseline, len(bench.references), bench.complete) == (
        count,
        baseline,
        count,
        True,
    )
    some = bench_named(name, data_dir=DATA, limit=7)
    assert some.questions == bench.questions[:7]
    assert (some.complete, len(some.references), some.version == bench.version) == (False, 7, False)


def test_a_changed_or_reordered_official_file_is_not_complete(tmp_path: Path) -> None:
    source = DATA / "alpacaeval2" / "reference_outputs.json.gz"
    if not source.exists():
        pytest.skip("the official files are not beside the project; they are never shipped")
    rows = json.loads(gzip.decompress(source.read_bytes()))
    for changed in ([{**rows[0], "instruction": "Another?"}, *rows[1:]], [rows[1], rows[0], *rows[2:]]):
        (tmp_path / "reference_outputs.json").write_text(json.dumps(changed))
        assert not bench_named("alpacaeval", data_dir=tmp_path).complete


def test_arena_hard_as_v01_wrote_it(tmp_path: Path) -> None:
    lines(
        tmp_path / "question.jsonl",
        {"question_id": "a1", "category": "arena-hard-v0.1", "cluster": "Keys", "turns": [{"content": "Why?"}]},
        {"question_id": "b2", "category": "arena-hard-v0.1", "cluster": "Doors", "turns": [{"content": "How?"}]},
    )
    (tmp_path / "model_answer").mkdir()
    turns = [{"content": "So.", "token_len": 2}]
    row = {"question_id": "b2", "answer_id": "x", "model_id": "gpt-4-0314", "choices": [{"index": 0, "turns": turns}]}
    lines(tmp_path / "model_answer" / "gpt-4-0314.jsonl", row | {"tstamp": 1.5})
    bench = bench_named("arena-hard", data_dir=tmp_path)
    assert [(each.id, each.prompt, each.subset) for each in bench.questions] == [
        ("a1", "Why?", "Keys"),
        ("b2", "How?", "Doors"),
    ]
    assert (bench.references, bench.complete) == ({"b2": "So."}, False)


def test_prompt_files_of_every_kind_ask_the_same(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    lines(tmp_path / "a.jsonl", {"prompt": "One?"}, {"prompt": [{"role": "user", "content": "Two?"}]})
    (tmp_path / "a.json").write_text(json.dumps([{"instruction": "One?"}, {"instruction": "Two?"}]))
    (tmp_path / "a.csv").write_text("instruction\nOne?\nTwo?\n")
    (tmp_path / "a.txt").write_text("One?\n\nTwo?\n")
    pq.write_table(pa.table({"instruction": ["One?", "Two?"]}), tmp_path / "a.parquet")
    kinds = ("jsonl", "json", "csv", "txt", "parquet")
    benches = [bench_named(str(tmp_path / f"a.{kind}")) for kind in kinds]
    assert {tuple(each.prompt for each in bench.questions) for bench in benches} == {("One?", "Two?")}
    assert len({bench.version for bench in benches}) == 1
    assert [bench.name for bench in benches] == [f"a.{kind}" for kind in kinds]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "holds no prompts"),
        ([{"text": "hello"}], r"bad\.jsonl:1 has no prompt; name the column prompt or instruction \(it has text\)"),
        ([{"prompt": "a"}, {"prompt": " "}], r"bad\.jsonl:2 has an empty prompt"),
        ([{"id": 1, "prompt": "a"}, {"id": 1, "prompt": "b"}], "the id '1' in rows 1 and 2"),
        ([{"prompt": "a"}, {"prompt": "a"}], "asks the same in '0' and '1'"),
        ([{"prompt": [{"role": "user", "content": "a"}] * 2}], "a conversation of 2 turns"),
        (["text"], "is no object"),
    ],
)
def test_a_file_that_is_no_bench_is_one_sentence(rows: list[object], words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        bench_named(lines(tmp_path / "bad.jsonl", *rows))


def test_unknown_names_are_met_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown bench 'alpaca-eval'; did you mean 'alpacaeval'"):
        bench_named("alpaca-eval")
    lines(tmp_path / "prompts.jsonl", {"prompt": "a"})
    with pytest.raises(InputError, match=r"promts\.jsonl does not exist; did you mean .*prompts\.jsonl"):
        bench_named(str(tmp_path / "promts.jsonl"))
    with pytest.raises(InputError, match="a limit must be 1 or more"):
        bench_named(str(tmp_path / "prompts.jsonl"), limit=0)
    (tmp_path / "prompts.xlsx").write_text("")
    with pytest.raises(InputError, match="unknown kind"):
        bench_named(str(tmp_path / "prompts.xlsx"))


def test_official_files_that_are_nowhere_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    with pytest.raises(
        InputError, match=r"alpaca_eval_gpt4_baseline\.json of tatsu-lab/alpaca_eval is needed.*--data-dir"
    ):
        bench_named("alpacaeval", data_dir=tmp_path)
    with pytest.raises(InputError, match="there is no folder"):
        bench_named("arena-hard", data_dir=tmp_path / "none")
