"""Bad rows with their exact place, and whole-file errors."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from gapo.pairs.formats import describe_bad_rows, load_pairs
from gapo.pairs.pair import BadRow

GOOD = {"prompt": "p", "chosen": "a", "rejected": "b"}
OTHER = {"prompt": "q", "chosen": "c", "rejected": "d"}
Lines = Callable[..., Path]
Said = Callable[[Callable[[], object]], str]


@pytest.fixture
def mixed(tmp_path: Path, lines: Lines) -> Path:
    return lines(
        tmp_path / "train.jsonl",
        GOOD,
        {**GOOD, "rejected": " "},
        b"",
        b'{"prompt": "p", ',
        b'{"prompt": "p", "chosen": "caf\xe9", "rejected": "b"}',
        {"prompt": "p", "chosen": "a"},
        {**GOOD, "chosen": "b"},
        {**GOOD, "chosen": None},
        {**GOOD, "chosen": ""},
        b"[" * 100_000,
        OTHER,
    )


def test_bad_rows_are_left_out_and_named_by_line(mixed: Path) -> None:
    pairs = load_pairs(mixed)
    assert [pair.source for pair in pairs] == ["train.jsonl:1", "train.jsonl:11"]
    assert [(bad.source, bad.reason) for bad in pairs.bad_rows] == [
        ("train.jsonl:2", "empty response"),
        ("train.jsonl:4", "not JSON"),
        ("train.jsonl:5", "not UTF-8"),
        ("train.jsonl:6", "missing key"),
        ("train.jsonl:7", "chosen equals rejected"),
        ("train.jsonl:8", "wrong type"),
        ("train.jsonl:9", "empty response"),
        ("train.jsonl:10", "not JSON"),
    ]
    assert pairs.bad_rows[2].detail == "byte 0xe9 at column 31"


def test_bad_rows_are_described_by_reason_the_most_frequent_first(mixed: Path) -> None:
    described = describe_bad_rows(load_pairs(mixed).bad_rows)
    assert described[0] == "2 rows left out: empty response (first: train.jsonl:2, key 'rejected')"
    assert described[3] == "1 row left out: missing key (first: train.jsonl:6, key 'rejected')"
    assert describe_bad_rows([]) == []
    assert describe_bad_rows([BadRow("x:1", "odd")]) == ["1 row left out: odd (first: x:1)"]


def test_strict_names_the_first_bad_row_and_the_count(mixed: Path, tmp_path: Path, lines: Lines, message: Said) -> None:
    said = message(lambda: load_pairs(mixed, strict=True))
    assert said.startswith("train.jsonl:2 is no pair: empty response (key 'rejected'); it is the first of 8 such rows")
    one = lines(tmp_path / "one.jsonl", GOOD, b"nonsense")
    assert "one.jsonl:2 is no pair: not JSON" in message(lambda: load_pairs(one, strict=True))
    assert len(load_pairs(lines(tmp_path / "sound.jsonl", GOOD), strict=True)) == 1


def test_no_good_row_is_an_error_with_the_reasons(tmp_path: Path, lines: Lines, message: Said) -> None:
    path = lines(tmp_path / "bad.jsonl", b"nonsense", {**GOOD, "chosen": ""})
    said = message(lambda: load_pairs(path))
    assert said.startswith("bad.jsonl holds no usable pair: 1 row left out: not JSON (first: bad.jsonl:1")
    assert "empty response (first: bad.jsonl:2, key 'chosen')" in said


def test_limit_counts_good_pairs(mixed: Path, message: Said) -> None:
    assert len(load_pairs(mixed, limit=2)) == 2
    assert load_pairs(mixed, limit=1).bad_rows == ()
    assert "limit must be 1 or more" in message(lambda: load_pairs(mixed, limit=0))


@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv", "jsonl.gz", "json.gz", "csv.gz", "parquet"])
def test_every_kind_of_file_reads_the_same(tmp_path: Path, suffix: str) -> None:
    import pandas as pd  # type: ignore[import-untyped]

    path = tmp_path / f"train.{suffix}"
    frame = pd.DataFrame([GOOD, {**OTHER, "chosen": 'two\nlines, "quoted"'}])
    if suffix == "parquet":
        frame.to_parquet(path)
    elif suffix.startswith("csv"):
        frame.to_csv(path, index=False)
    else:
        frame.to_json(path, orient="records", lines=suffix.startswith("jsonl"))
    pairs = load_pairs(path)
    assert [(pair.prompt, pair.chosen, pair.rejected) for pair in pairs] == [
        ("p", "a", "b"),
        ("q", 'two\nlines, "quoted"', "d"),
    ]
    assert pairs.name == "train"


def test_csv_rows_are_named_by_the_line_they_start_on(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(
        b'\xef\xbb\xbfprompt,chosen,rejected,flipped\np,"two\nlines",b,True\np,a\n\np,caf\xe9,b,\np,a,b,,extra\np,a,,\nq,"open,d,\n'
    )
    pairs = load_pairs(path)
    assert [(pair.chosen, pair.flipped, pair.source) for pair in pairs] == [("two\nlines", True, "t.csv:2")]
    assert [(bad.source, bad.reason) for bad in pairs.bad_rows] == [
        ("t.csv:4", "missing key"),
        ("t.csv:6", "not UTF-8"),
        ("t.csv:7", "not CSV"),
        ("t.csv:8", "empty response"),
        ("t.csv:9", "not CSV"),
    ]


def test_a_long_csv_cell_is_read_and_the_limit_put_back(tmp_path: Path) -> None:
    usual = csv.field_size_limit()
    path = tmp_path / "t.csv"
    path.write_text(f"prompt,chosen,rejected\np,{'a' * 200_000},b\n")
    assert len(load_pairs(path)[0].chosen) == 200_000
    assert csv.field_size_limit() == usual


def test_a_broken_byte_in_json_costs_one_row(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(json.dumps([GOOD, {**OTHER, "chosen": "BYTE"}]).encode().replace(b"BYTE", b"caf\xe9"))
    assert load_pairs(path).bad_rows == (BadRow("t.json:2", "not UTF-8", "key 'chosen'"),)


def test_a_broken_byte_in_parquet_costs_one_row(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    broken = pa.array([b"a", b"caf\xe9"], pa.binary()).view(pa.string())
    columns = {"prompt": pa.array(["p", "q"]), "chosen": broken, "rejected": pa.array(["b", "d"])}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    pairs = load_pairs(tmp_path / "t.parquet")
    assert len(pairs) == 1
    assert [(bad.source, bad.reason) for bad in pairs.bad_rows] == [("t.parquet:2", "not UTF-8")]


def whole_file_errors(tmp_path: Path) -> dict[str, tuple[Path, str]]:
    def write(name: str, content: bytes) -> Path:
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    packed = gzip.compress(b"".join(json.dumps({**GOOD, "id": i}).encode() + b"\n" for i in range(500)))
    return {
        "truncated": (write("cut.jsonl.gz", packed[: len(packed) // 2]), "is not a whole gzip file; copy or compress"),
        "not gzip": (write("no.jsonl.gz", b"{}\n"), "is not a whole gzip file"),
        "not gzip csv": (write("no.csv.gz", b"prompt\n"), "is not a whole gzip file"),
        "not parquet": (write("no.parquet", b"nonsense, and enough of it"), "is not a whole parquet file"),
        "empty parquet": (write("zero.parquet", b""), "is not a whole parquet file"),
        "not json": (write("no.json", b'{"a": '), "is not JSON"),
        "json without rows": (write("three.json", b"3"), "holds no list of rows"),
        "empty object": (write("object.json", b"{}"), "it is empty"),
        "unknown suffix": (write("x.txt", b"hello"), "is of an unknown kind; use a name ending in .jsonl"),
        "packed parquet": (write("x.parquet.gz", b"hello"), "is of an unknown kind"),
        "empty jsonl": (write("zero.jsonl", b"\n\n"), "zero.jsonl is empty"),
        "empty json": (write("zero.json", b""), "zero.json is empty"),
        "empty csv": (write("zero.csv", b""), "zero.csv is empty"),
        "csv header only": (write("head.csv", b"prompt,chosen,rejected\n"), "head.csv is empty"),
        "csv columns": (
            write("qa.csv", b"question,chosen\na,b\n"),
            "qa.csv has no column 'rejected' (its columns: 'question', 'chosen'); rename",
        ),
        "jsonl columns": (
            write("qa.jsonl", b'{"question": "a", "answer": "b"}\n'),
            "qa.jsonl has no column 'chosen' and 'rejected' (its columns: 'question', 'answer'); rename",
        ),
    }


def test_whole_file_errors_are_one_sentence_with_a_way_out(tmp_path: Path, message: Said) -> None:
    for case, (path, expected) in whole_file_errors(tmp_path).items():
        assert expected in message(partial(load_pairs, path)), case


@pytest.mark.parametrize("name", ["t.json", "t.jsonl"])
def test_a_byte_order_mark_is_no_content(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + json.dumps(GOOD).encode())
    assert load_pairs(tmp_path / name, strict=True)[0].prompt == "p"
