"""Data files of every format, broken in the ways files break."""

# ruff: noqa: E501 - a case a line: a table reads better than its parts
from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from bad_rows import GOOD, OTHER, TURNS, data_case
from corpus import PAIRS, Case, Write, jsonl


def text_cases() -> list[Case]:
    """Bytes that are no JSON, no CSV, or no text at all."""
    deep = b"[" * 100_000
    line = jsonl(GOOD)
    long_number = b'{"prompt":"a","chosen":"b","rejected":"c","id":' + b"9" * 5000 + b"}"
    twice = b'{"prompt":"a","chosen":"b","chosen":"c","rejected":"d"}'
    return [
        data_case("jsonl: empty", "e.jsonl", b"", "is empty"),
        data_case("jsonl: blank lines", "e.jsonl", b"\n \n\t\n", "is empty"),
        data_case("jsonl: words", "e.jsonl", b"hello there\n", "not JSON"),
        data_case("jsonl: a list", "e.jsonl", b"[1, 2]\n", "the row is a list"),
        data_case("jsonl: a number", "e.jsonl", b"3\n", "the row is a number"),
        data_case("jsonl: null", "e.jsonl", b"null\n", "the row is null"),
        data_case("jsonl: NaN", "e.jsonl", b"NaN\n", "the row is a number"),
        data_case(
            "jsonl: Infinity in a field", "e.jsonl", b'{"prompt":"a","chosen":Infinity,"rejected":"b"}', "a number"
        ),
        data_case("jsonl: cut off", "e.jsonl", line[:30], "not JSON"),
        data_case("jsonl: two rows a line", "e.jsonl", line.strip() + line, "not JSON"),
        data_case("jsonl: single quotes", "e.jsonl", str(GOOD).encode(), "not JSON"),
        data_case("jsonl: a comma at the end", "e.jsonl", line.strip() + b",\n", "not JSON"),
        data_case("jsonl: a hundred thousand brackets", "e.jsonl", deep, "nested too deeply"),
        data_case("jsonl: nested objects", "e.jsonl", b'{"a":' * 50_000, "nested too deeply"),
        data_case("jsonl: a number of 5,000 digits", "e.jsonl", long_number, "not JSON.*digits"),
        data_case("jsonl: a key twice", "e.jsonl", twice, "'chosen' is there twice"),
        data_case("jsonl: UTF-16", "e.jsonl", line.decode().encode("utf-16"), "not UTF-8"),
        data_case("jsonl: UTF-32", "e.jsonl", line.decode().encode("utf-32"), "not UTF-8|not JSON"),
        data_case("jsonl: latin-1", "e.jsonl", jsonl(GOOD).replace(b"tell", b"t\xe9ll"), "not UTF-8"),
        data_case("jsonl: NUL bytes", "e.jsonl", bytes(64), "not JSON"),
        data_case("jsonl: lone surrogate", "e.jsonl", jsonl({**GOOD, "chosen": "\ud800"}), "not UTF-8"),
        data_case("jsonl: BOM in the middle", "e.jsonl", b" \xef\xbb\xbf" + line, "not JSON"),
        data_case("jsonl: carriage returns alone", "e.jsonl", b"\r".join([line.strip()] * 2), "not JSON"),
        data_case(
            "jsonl: a parquet file",
            "e.jsonl",
            lambda path: pq.write_table(pa.table({"a": [1]}), path),
            "not (UTF-8|JSON)",
        ),
        data_case("jsonl: a gzip file", "e.jsonl", gzip.compress(line), "not (UTF-8|JSON)"),
        data_case("jsonl: HTML", "e.jsonl", b"<!DOCTYPE html>\n<html></html>\n", "not JSON"),
        data_case("json: empty", "e.json", b"", "is empty"),
        data_case("json: spaces", "e.json", b" \n", "is empty"),
        data_case("json: a number", "e.json", b"3", "holds no list of rows"),
        data_case("json: a text", "e.json", b'"rows"', "holds no list of rows"),
        data_case("json: null", "e.json", b"null", "holds no list of rows"),
        data_case("json: empty list", "e.json", b"[]", "is empty"),
        data_case("json: list of numbers", "e.json", b"[1, 2, 3]", "the row is a number"),
        data_case("json: list of lists", "e.json", b"[[], []]", "the row is a list"),
        data_case("json: cut off", "e.json", json.dumps(PAIRS).encode()[:-20], "is not JSON"),
        data_case("json: cut between rows", "e.json", b"[" + json.dumps(GOOD).encode() + b",", "is not JSON"),
        data_case("json: words after the end", "e.json", json.dumps(PAIRS).encode() + b" and more", "is not JSON"),
        data_case("json: no commas", "e.json", b"[" + json.dumps(GOOD).encode() * 2 + b"]", "is not JSON"),
        data_case("json: a key twice", "e.json", b"[" + twice + b"]", "'chosen' is there twice"),
        data_case("json: a hundred thousand brackets", "e.json", deep, "nested too deeply"),
        data_case("json: a number of 5,000 digits", "e.json", b"[" + long_number + b"]", "is not JSON.*digits"),
        data_case("json: no such split", "e.json", b'{"left": [], "right": []}', "has no split 'train'"),
        data_case("json: empty object", "e.json", b"{}", "it is empty"),
        data_case("json: a split of text", "e.json", b'{"train": "rows"}', "holds no list of rows"),
        data_case("json: a split of objects", "e.json", b'{"train": {"a": 1}}', "holds no list of rows"),
        data_case("json: UTF-16", "e.json", json.dumps(PAIRS).encode("utf-16"), "not JSON"),
        data_case("json: NUL bytes", "e.json", bytes(64), "is not JSON"),
        data_case("csv: empty", "e.csv", b"", "is empty"),
        data_case("csv: header alone", "e.csv", b"prompt,chosen,rejected\n", "is empty"),
        data_case("csv: no header", "e.csv", b"a,b,c\nd,e,f\n", "no column 'chosen' and 'rejected'"),
        data_case("csv: semicolons", "e.csv", b"prompt;chosen;rejected\na;b;c\n", "no column 'chosen'"),
        data_case("csv: tabs", "e.csv", b"prompt\tchosen\trejected\na\tb\tc\n", "no column 'chosen'"),
        data_case("csv: too many cells", "e.csv", b"prompt,chosen,rejected\na,b,c,d\n", "4 cells under 3 columns"),
        data_case("csv: too few cells", "e.csv", b"prompt,chosen,rejected\na,b\n", "missing key"),
        data_case("csv: open quote", "e.csv", b'prompt,chosen,rejected\n"a,b,c\n', "not CSV"),
        data_case("csv: words after a quote", "e.csv", b'prompt,chosen,rejected\n"a"b,c,d\n', "not CSV"),
        data_case("csv: a column twice", "e.csv", b"prompt,chosen,chosen,rejected\na,b,c,d\n", "column 'chosen' twice"),
        data_case("csv: latin-1", "e.csv", b"prompt,chosen,rejected\na,caf\xe9,c\n", "not UTF-8"),
        data_case("csv: UTF-16", "e.csv", "prompt,chosen,rejected\na,b,c\n".encode("utf-16"), "no column|not CSV"),
        data_case("csv: NUL bytes", "e.csv", b"prompt,chosen,rejected\n\0,\0,\0\n", "not CSV|equals rejected"),
        data_case("csv: NUL in the header", "e.csv", b"prompt,\0chosen,rejected\na,b,c\n", "no column|not CSV"),
        data_case("csv: quotes in the header", "e.csv", b'""prompt,chosen,rejected\na,b,c\n', "is not CSV"),
        data_case("csv: a thousand columns", "e.csv", b",".join([b"c" * 90] * 1000) + b"\n1\n", "no column 'chosen'"),
        data_case(
            "json: splits of long names",
            "e.json",
            json.dumps({f"{i}" * 500: [] for i in range(9)}).encode(),
            "has no split",
        ),
        data_case("csv: flipped is a word", "e.csv", b"prompt,chosen,rejected,flipped\na,b,c,maybe\n", "key 'flipped'"),
    ]


def packed_cases() -> list[Case]:
    """gzip that breaks off, lies, or goes on with something else."""
    whole = gzip.compress(jsonl(*PAIRS * 50))
    as_json, as_csv = (
        gzip.compress(json.dumps(PAIRS * 50).encode()),
        gzip.compress(b"prompt,chosen,rejected\n" + b"a,b,c\n" * 500),
    )
    cuts = [
        1,
        2,
        5,
        9,
        10,
        15,
        len(whole) // 4,
        len(whole) // 2,
        len(whole) - 9,
        len(whole) - 8,
        len(whole) - 4,
        len(whole) - 1,
    ]
    flaw = bytearray(whole)
    flaw[len(whole) // 2] ^= 0xFF
    not_whole = "is not a whole gzip file"
    return [
        *(data_case(f"jsonl.gz: {cut} of {len(whole)} bytes", "p.jsonl.gz", whole[:cut], not_whole) for cut in cuts),
        data_case("json.gz: half", "p.json.gz", as_json[: len(as_json) // 2], not_whole),
        data_case("json.gz: without its end", "p.json.gz", as_json[:-8], not_whole),
        data_case("csv.gz: half", "p.csv.gz", as_csv[: len(as_csv) // 2], not_whole),
        data_case("csv.gz: without its end", "p.csv.gz", as_csv[:-8], not_whole),
        data_case("jsonl.gz: a flipped byte", "p.jsonl.gz", bytes(flaw), not_whole),
        data_case("jsonl.gz: wrong CRC", "p.jsonl.gz", whole[:-8] + b"\0\0\0\0" + whole[-4:], not_whole),
        data_case("jsonl.gz: wrong length", "p.jsonl.gz", whole[:-4] + b"\1\2\3\4", not_whole),
        data_case("jsonl.gz: garbage behind", "p.jsonl.gz", whole + b"garbage", not_whole),
        data_case("jsonl.gz: a second part cut off", "p.jsonl.gz", whole + whole[:20], not_whole),
        data_case("jsonl.gz: not packed", "p.jsonl.gz", jsonl(*PAIRS), not_whole),
        data_case("jsonl.gz: empty", "p.jsonl.gz", b"", "is empty"),
        data_case("jsonl.gz: packed nothing", "p.jsonl.gz", gzip.compress(b""), "is empty"),
        data_case("jsonl.gz: packed twice", "p.jsonl.gz", gzip.compress(whole), "not (UTF-8|JSON)"),
        data_case("csv.gz: not packed", "p.csv.gz", b"prompt,chosen,rejected\na,b,c\n", not_whole),
        data_case("parquet.gz", "p.parquet.gz", whole, "of an unknown kind"),
    ]


def parquet_cases() -> list[Case]:
    """Parquet that is cut, or whose columns are of another type."""
    n = 3
    texts = {name: [f"{name} {i}" for i in range(n)] for name in ("prompt", "chosen", "rejected")}
    columns: dict[str, tuple[Any, str]] = {
        "numbers": (pa.array([1, 2, 3]), "a number, not text"),
        "floats with NaN": (pa.array([1.0, math.nan, math.inf]), "a number, not text"),
        "nulls": (pa.nulls(n), "null, not text"),
        "bytes": (pa.array([b"a", b"b", b"c"]), "bytes, not text"),
        "dates": (pa.array([0, 1, 2], pa.date32()), "date, not text"),
        "times": (pa.array([0, 1, 2], pa.timestamp("ns")), "not text"),
        "decimals": (pa.array([1, 2, 3], pa.decimal128(5, 2)), "Decimal, not text"),
        "structs": (pa.array([{"a": 1}] * n), "an object, not text"),
        "maps": (pa.array([[("a", 1)]] * n, pa.map_(pa.string(), pa.int64())), "where a message is needed"),
        "lists of lists": (pa.array([[["a"]]] * n), "where a message is needed"),
        "lists of numbers": (pa.array([[1, 2]] * n), "where a message is needed"),
        "booleans": (pa.array([True, False, True]), "true or false, not text"),
        "durations": (pa.array([1, 2, 3], pa.duration("s")), "not text"),
    }

    def spoilt(name: str, values: Any) -> Write:
        return lambda path: pq.write_table(pa.table({**texts, name: values}), path)

    def cut(share: float) -> Write:
        def write(path: Path) -> None:
            pq.write_table(pa.table(texts), path)
            content = path.read_bytes()
            path.write_bytes(content[: int(len(content) * share)])

        return write

    def hole(path: Path) -> None:
        pq.write_table(pa.table(texts), path)
        content = bytearray(path.read_bytes())
        content[8:60] = bytes(52)
        path.write_bytes(content)

    def broken_text(path: Path) -> None:
        bad = pa.array([b"caf\xe9"] * n).cast(pa.binary()).view(pa.string())
        pq.write_table(pa.table({**texts, "chosen": bad}), path)

    return [
        *(data_case(f"parquet: chosen holds {name}", "t.parquet", spoilt("chosen", values), says) for name, (values, says) in columns.items()),
        data_case("parquet: flipped holds dates", "t.parquet", spoilt("flipped", pa.array([0, 1, 2], pa.date32())), "key 'flipped'"),
        data_case("parquet: id holds floats", "t.parquet", spoilt("id", pa.array([1.5, 2.5, math.nan])), "key 'id'"),
        data_case("parquet: empty file", "t.parquet", b"", "is not a whole parquet file"),
        data_case("parquet: no rows", "t.parquet", lambda path: pq.write_table(pa.table(texts).slice(0, 0), path), "is empty"),
        data_case("parquet: no columns", "t.parquet", lambda path: pq.write_table(pa.table({}), path), "no column 'chosen'"),
        data_case("parquet: magic bytes alone", "t.parquet", b"PAR1PAR1", "is not a whole parquet file"),
        data_case("parquet: JSON", "t.parquet", jsonl(GOOD), "is not a whole parquet file"),
        data_case("parquet: a tenth", "t.parquet", cut(0.1), "is not a whole parquet file"),
        data_case("parquet: half", "t.parquet", cut(0.5), "is not a whole parquet file"),
        data_case("parquet: all but the end", "t.parquet", cut(0.99), "is not a whole parquet file"),
        data_case("parquet: a hole in a page", "t.parquet", hole, "is not a whole parquet file|cannot be read"),
        data_case("parquet: broken text", "t.parquet", broken_text, "not UTF-8"),
    ]  # fmt: skip


def place_cases() -> list[Case]:
    """Not a file, not there, or not what its name says."""

    def loop(path: Path) -> None:
        path.symlink_to(path.name)

    def two(path: Path) -> None:
        path.mkdir()
        (path / "left.jsonl").write_bytes(jsonl(GOOD))
        (path / "right.jsonl").write_bytes(jsonl(GOOD))

    nothing = lambda path: None  # noqa: E731
    return [
        data_case("path: not there", "gone.jsonl", nothing, "does not exist"),
        data_case("path: nearly there", "pair.jsonl", nothing, "did you mean 'pairs.jsonl'"),
        data_case("path: folder not there", "gone/gone.jsonl", nothing, "nor does its folder"),
        data_case("path: unknown kind", "notes.txt", b"hello", "of an unknown kind"),
        data_case("path: no suffix", "notes", b"hello", "of an unknown kind"),
        data_case("path: a folder named like a file", "d.jsonl", Path.mkdir, "holds no data file"),
        data_case("path: a folder named like Parquet", "d.parquet", Path.mkdir, "holds no data file"),
        data_case("path: a folder of unknown splits", "d", two, "has no split 'train'"),
        data_case("path: a link to itself", "loop.jsonl", loop, "does not exist|cannot be read"),
        data_case(
            "path: an unknown set",
            "courtesi",
            nothing,
            "unknown data set 'courtesi'",
            command="flip courtesi out.jsonl --force",
        ),
        data_case(
            "path: a set without this split",
            "x",
            nothing,
            "has no split",
            "courtesy",
            "flip courtesy:other out.jsonl --force",
        ),
        data_case(
            "path: a file without this split",
            "e.jsonl",
            jsonl(GOOD),
            "one file without splits",
            command="flip e.jsonl:other out.jsonl --force",
        ),
        data_case("path: a name too long", "n" * 300 + ".jsonl", nothing, "cannot be read", "nnnn"),
        data_case(
            "path: a NUL in the name",
            "x",
            nothing,
            "NUL|does not exist",
            "e\\x00.jsonl",
            "flip e\0.jsonl out.jsonl --force",
        ),
        data_case("path: a device", "x", nothing, "is not a file", "/dev/null", "flip /dev/null out.jsonl --force"),
    ]


def other_commands() -> list[Case]:
    """The same door, from other commands."""
    bad = jsonl({**GOOD, "chosen": ""})
    return [
        data_case("train: no usable pair", "e.jsonl", bad, "empty response", command="train mini model.name=model data.train={file} train.output_dir=run train.use_cpu=true -q"),
        data_case("train: strict", "e.jsonl", jsonl(*PAIRS) + bad, "is no pair", command="train mini model.name=model data.train={file} data.strict=true train.output_dir=run train.use_cpu=true -q"),
        data_case("train: evaluation pairs", "e.jsonl", bad, "empty response", command="train mini model.name=model data.train=pairs.jsonl data.eval={file} train.output_dir=run train.use_cpu=true -q"),
        data_case("dry run: no usable pair", "e.jsonl", bad, "empty response", command="train mini model.name=model data.train={file} --dry-run -q"),
        data_case("audit: no usable pair", "e.jsonl", bad, "empty response", command="audit {file} --model model --out audit -q"),
        data_case("audit: cut gzip", "e.jsonl.gz", gzip.compress(jsonl(*PAIRS))[:-6], "not a whole gzip", command="audit {file} --model model --out audit -q"),
        data_case("eval reward: no usable pair", "e.jsonl", bad, "empty response", command="eval reward model --data {file} -q"),
        data_case("eval drift: no usable pair", "e.jsonl", bad, "empty response", command="eval drift model --against model --data {file} -q"),
        data_case("eval all: no usable pair", "e.jsonl", bad, "empty response", command="eval all model --against model --data {file} -q"),
        data_case("flip: a rate above one", "x", b"", "rate", "1.5", "flip pairs.jsonl out.jsonl --force --rate 1.5"),
        data_case("flip: a rate that is no number", "x", b"", "rate", "nan", "flip pairs.jsonl out.jsonl --force --rate nan"),
        data_case("flip: an unknown rule", "x", b"", "did you mean 'random'|unknown", "rando", "flip pairs.jsonl out.jsonl --force --kind rando"),
        data_case("flip: out is a folder", "d.jsonl", Path.mkdir, "a folder has this name", command="flip pairs.jsonl {file} --force"),
        data_case("flip: out is there", "x", b"", "exists", "out.jsonl", "flip pairs.jsonl out.jsonl"),
        data_case("flip: out of an unknown kind", "x", b"", "unknown kind", "out.txt", "flip pairs.jsonl out.txt"),
        data_case("flip: out below a file", "x", b"", "a file stands where a folder is needed", "pairs.jsonl/out.jsonl", "flip pairs.jsonl pairs.jsonl/out.jsonl"),
        data_case("flip: conversations into CSV", "e.jsonl", jsonl({"chosen": TURNS, "rejected": OTHER}), "does not fit", "CSV", "flip e.jsonl out.csv"),
    ]  # fmt: skip


FILES = [*text_cases(), *packed_cases(), *parquet_cases(), *place_cases(), *other_commands()]
