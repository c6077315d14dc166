"""Rows that are kept come out as they went in."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapo.errors import InputError
from gapo.pairs.formats import load_pairs
from gapo.pairs.originals import row_number, save_originals

ODD = 'naïve "quoted"\nsecond line, with a comma\tand a tab 🙂'


def kept(source, places, out, **how):
    """What `--keep` does: the rows of some of the pairs."""
    pairs = load_pairs(source, **how)
    save_originals(source, [row_number(pairs[i].source) for i in places], out)
    assert [pair.id for pair in load_pairs(str(out))] == [pairs[i].id for i in places]
    return out.read_bytes()


def test_lines_of_jsonl_byte_for_byte(tmp_path):
    lines = [
        b'{"chosen":"a",  "prompt":"p1","rejected":"b","extra":{"n":1.50,"z":null}}\n',
        b"no json at all\n",
        b"\n",
        '{"prompt": "p2", "chosen": "ä\\u00e4", "rejected": "b", "score": 1e3}\r\n'.encode(),
        b'{"prompt": "p3", "chosen": "c", "rejected": "d"}',
    ]
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"".join(lines))
    assert kept(str(path), [0, 1], tmp_path / "out.jsonl") == lines[0] + lines[3]
    assert kept(str(path), [2], tmp_path / "last.jsonl") == lines[4] + b"\n"
    packed = kept(str(path), [1], tmp_path / "out.jsonl.gz")
    assert gzip.decompress(packed) == lines[3]


def test_records_of_csv_byte_for_byte(tmp_path):
    records = [
        "prompt,chosen,rejected,note\r\n",
        'p1,"a, b",c,1.50\r\n',
        'p2,"first\r\nsecond ""quoted""",d,\r\n',
        "too,many,cells,in,this\r\n",
        "p3,e,f, spaced \r\n",
    ]
    path = tmp_path / "in.csv"
    path.write_bytes("".join(records).encode())
    out = kept(str(path), [1, 2], tmp_path / "out.csv")
    assert out == (records[0] + records[2] + records[4]).encode()


def test_rows_of_parquet_with_their_schema(tmp_path):
    rows = {
        "prompt": [f"p{i}" for i in range(5)],
        "chosen": ["a"] * 5,
        "rejected": ["b", "b", "a", "b", "b"],
        "n": pa.array(range(5), pa.int16()),
        "tags": [["x", "y"], None, [], ["z"], None],
    }
    table = pa.table(rows).replace_schema_metadata({"made": "by hand"})
    pq.write_table(table, tmp_path / "in.parquet")
    kept(str(tmp_path / "in.parquet"), [0, 2, 3], tmp_path / "out.parquet")  # row 2 is no pair
    found = pq.read_table(tmp_path / "out.parquet")
    assert found.equals(table.take([0, 3, 4]))
    assert found.schema.equals(pq.read_schema(tmp_path / "in.parquet"), check_metadata=True)


def test_hh_keeps_its_transcripts(tmp_path):
    rows = [
        {"chosen": f"\n\nHuman: q{i}\n\nAssistant: good {i}", "rejected": f"\n\nHuman: q{i}\n\nAssistant: bad", "k": i}
        for i in range(4)
    ]
    path = tmp_path / "hh.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    out = kept(str(path), [1, 3], tmp_path / "out.jsonl")
    assert [json.loads(line) for line in out.splitlines()] == [rows[1], rows[3]]


@pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "parquet"])
@pytest.mark.parametrize("to", ["jsonl", "json", "csv", "parquet"])
def test_any_kind_to_any_kind_keeps_every_field(tmp_path, kind, to):
    rows = [{"prompt": f"p{i}", "chosen": f"{ODD} {i}", "rejected": "b", "extra": f"e{i}"} for i in range(3)]
    first, source = tmp_path / "first.json", tmp_path / f"in.{kind}"
    first.write_text(json.dumps(rows))
    save_originals(str(first), [1, 2, 3], source)
    kept(str(source), [0, 2], tmp_path / f"out.{to}")
    save_originals(str(tmp_path / f"out.{to}"), row_numbers(tmp_path / f"out.{to}"), tmp_path / "back.json")
    assert json.loads((tmp_path / "back.json").read_text()) == [rows[0], rows[2]]


def row_numbers(path):
    return [row_number(pair.source) for pair in load_pairs(str(path))]


def test_embedded_sets_folders_and_rows_in_memory(tmp_path):
    kept("courtesy:test", [0, 2], tmp_path / "courtesy.jsonl")
    folder = tmp_path / "set"
    folder.mkdir()
    rows = [{"prompt": f"p{i}", "chosen": "a", "rejected": "b", "x": i} for i in range(3)]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "test.jsonl").write_text(json.dumps(rows[0]) + "\n")
    assert json.loads(kept(str(folder), [2], tmp_path / "a.jsonl")) == rows[2]
    assert json.loads(kept(f"{folder}:test", [0], tmp_path / "b.jsonl")) == rows[0]
    save_originals(rows, [2], tmp_path / "c.jsonl")
    assert json.loads((tmp_path / "c.jsonl").read_text()) == rows[1]


def test_what_cannot_be_written_is_said(tmp_path):
    turns = [{"role": "user", "content": "q"}]
    answer = [{"role": "assistant", "content": "a"}]
    row = {"prompt": turns, "chosen": answer, "rejected": [{"role": "assistant", "content": "b"}]}
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(InputError, match="does not fit into a CSV cell"):
        save_originals(str(path), [1], tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()
    with pytest.raises(InputError, match="is the file the pairs are read from"):
        save_originals(str(path), [1], path)
    with pytest.raises(InputError, match="does not say which row"):
        row_number("somewhere")
