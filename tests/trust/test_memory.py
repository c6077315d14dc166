"""A file takes the memory of its longest row, whatever its size: measured on rows of 100 MB and on gzip bombs.

The bound: a row has at most `LONGEST_ROW` bytes, and reading a text file takes at most `MOST` more memory than an empty
process has, whatever the row says (brackets take thirty times their text). Parquet comes in row groups, which its own
library holds; a row longer than `LONGEST_ROW` is refused there too, after its group was read.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gapo
from gapo.errors import InputError
from gapo.pairs.formats import load_pairs
from gapo.pairs.table import LONGEST_ROW

MOST = 300 * 2**20  # bytes above what the process held before it read the file; 225 MiB were measured
READ = """
import re, sys
from pathlib import Path
from gapo.errors import InputError
from gapo.pairs.formats import load_pairs
import pyarrow.parquet
def memory(name):
    return 1024 * int(re.search(name + r":\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
for path in sys.argv[1:]:
    Path("/proc/self/clear_refs").write_text("5")  # the highest mark is now what is held now
    before = memory("VmRSS")
    try:
        said = f"{len(load_pairs(path, cache=False))} pairs"
    except InputError as error:
        said = str(error)
    print(memory("VmHWM") - before, said)
"""  # getrusage would tell the highest mark of the process that started this one, if that was higher
ROW = json.dumps({"prompt": "a", "chosen": "b", "rejected": "c"}).encode()


linux = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells the highest mark")


def measured(*paths: Path) -> list[tuple[int, str]]:
    """How far the memory of a fresh process rises above what it held before each file, and what it said of it."""
    source = Path(gapo.__file__).parents[1]
    run = subprocess.run(
        [sys.executable, "-c", READ, *map(str, paths)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={**os.environ, "PYTHONPATH": str(source)},
    )
    return [(int(rise), said) for rise, _, said in (line.partition(" ") for line in run.stdout.splitlines())]


def repeated(path: Path, start: bytes, block: bytes, count: int, end: bytes = b"") -> Path:
    """Blocks between a start and an end; packed, each part is a member of its own, which gzip allows."""
    packed = gzip.compress if path.suffix == ".gz" else bytes
    parts = [packed(part) for part in (start, block, end)]
    with open(path, "wb") as file:
        file.write(parts[0])
        for _ in range(count):
            file.write(parts[1])
        file.write(parts[2])
    return path


TEXT, LINES = b"x" * 2**20, (b"x" * 1023 + b"\n") * 2**10
HEAVY = [
    ("line.jsonl", b'{"prompt": "', TEXT, 100, b'"}', "longer than 8 MiB"),
    ("brackets.jsonl", b"", b"[" * 2**20, 100, b"", "longer than 8 MiB"),
    ("row.json", b'[{"prompt": "', TEXT, 100, b'"}]', "one row has more than 8 MiB"),
    ("split.json", b'{"train": [{"prompt": "', TEXT, 100, b'"}]}', "one row has more than 8 MiB"),
    ("cell.csv", b"prompt,chosen,rejected\na,b,", TEXT, 100, b"\n", "longer than 8 MiB"),
    ("header.csv", b"prompt,", TEXT, 100, b"\n", "longer than 8 MiB"),
    ("quote.csv", b'prompt,chosen,rejected\na,b,"', LINES, 100, b"", "longer than 8 MiB"),
    ("bomb.jsonl.gz", b"", bytes(2**20), 150, b"", "longer than 8 MiB"),
    ("bomb.json.gz", b"[", b" " * 2**20, 150, b"", "is not JSON"),
    ("bomb.csv.gz", b"", bytes(2**20), 150, b"", "longer than 8 MiB"),
    ("lists.json", b"[[", b"[]," * 2**18, 40, b"[]]]", "one row has more than 8 MiB"),  # last: it leaves memory behind
]


@linux
def test_a_huge_row_is_refused_before_it_is_held(tmp_path):
    """100 MB without an end of the row, in every way a text file can have them; and 150 MB out of 0.2 MB of gzip."""
    paths = [repeated(tmp_path / file, *parts) for file, *parts, _ in HEAVY]
    assert all(path.stat().st_size < 2**19 for path in paths if path.suffix == ".gz")
    for (file, *_, says), (rise, said) in zip(HEAVY, measured(*paths), strict=True):
        assert says in said, f"{file}: {said[:300]}"
        assert rise < MOST, f"{file}: {rise / 2**20:.0f} MiB"


@linux
def test_the_worst_row_that_is_still_read_keeps_the_bound(tmp_path):
    worst = b'{"prompt": [' + b"[]," * (LONGEST_ROW // 3 - 10) + b"[]]}"
    assert len(worst) < LONGEST_ROW
    (tmp_path / "f.jsonl").write_bytes(worst + b"\n" + ROW)
    [(rise, said)] = measured(tmp_path / "f.jsonl")
    assert said == "1 pairs"
    assert rise < MOST, f"{rise / 2**20:.0f} MiB"


@linux
def test_a_file_of_many_rows_takes_the_memory_of_its_pairs(tmp_path):
    """80 MB of a column that pairs do not have: what is no part of a pair is not kept."""
    row = json.dumps({"prompt": "a", "chosen": "b", "rejected": "c", "notes": "x" * 2**18}).encode()
    paths = [
        repeated(tmp_path / "f.json", b"[", row + b",", 320, ROW + b"]"),
        repeated(tmp_path / "f.jsonl", b"", row + b"\n", 320, ROW),
    ]
    for rise, said in measured(*paths):
        assert said == "321 pairs"
        assert rise < 40 * 2**20, f"{rise / 2**20:.0f} MiB"


def test_a_split_larger_than_a_row_is_read_row_by_row(tmp_path):
    rows = [{"prompt": "p", "chosen": "b" * 2**19, "rejected": f"{i}"} for i in range(40)]
    other = {"note": "n", "test": rows[:1], "train": rows}
    (tmp_path / "f.json").write_text(json.dumps(other))
    assert (tmp_path / "f.json").stat().st_size > LONGEST_ROW
    assert len(load_pairs(tmp_path / "f.json", cache=False)) == 40
    assert len(load_pairs(tmp_path / "f.json", split="test", cache=False)) == 1
    with pytest.raises(InputError, match="has no split 'tset'; did you mean 'test'"):
        load_pairs(tmp_path / "f.json", split="tset")
    with pytest.raises(InputError, match="holds no list of rows"):
        load_pairs(tmp_path / "f.json", split="note")


def test_a_long_row_costs_itself_and_not_its_neighbours(tmp_path):
    long = json.dumps({"prompt": "a", "chosen": "x" * (LONGEST_ROW + 5), "rejected": "c"}).encode()
    (tmp_path / "f.jsonl").write_bytes(b"\n".join([ROW, long, ROW]))
    cells = b"prompt,chosen,rejected\na,b,c\na," + b"x" * (LONGEST_ROW + 5) + b",c\nd,e,f\n"
    (tmp_path / "f.csv").write_bytes(cells)
    for name in ("f.jsonl", "f.csv"):
        found = load_pairs(tmp_path / name)
        assert (len(found), len(found.bad_rows)) == (2, 1)
        assert "longer than 8 MiB" in str(found.bad_rows[0])
    texts = pa.table({"prompt": ["a"] * 3, "chosen": ["b", "x" * (LONGEST_ROW + 5), "d"], "rejected": ["c"] * 3})
    pq.write_table(texts, tmp_path / "f.parquet")
    found = load_pairs(tmp_path / "f.parquet")
    assert [row.source for row in found.bad_rows] == ["f.parquet:2"]
