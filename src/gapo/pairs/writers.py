"""A set of pairs as the bytes of a file, for each kind of file; the same pairs always give the same bytes."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import IO, Any

from gapo.errors import InputError
from gapo.pairs.pair import PairSet
from gapo.pairs.rows import COLUMNS

ROW_GROUP = 65_536  # rows of a parquet file in memory at once


def write_jsonl(pairs: PairSet, out: IO[bytes]) -> None:
    for row in pairs.rows():
        out.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")


def write_json(pairs: PairSet, out: IO[bytes]) -> None:
    out.write(json.dumps(list(pairs.rows()), ensure_ascii=False, indent=1).encode() + b"\n")


def write_csv(pairs: PairSet, out: IO[bytes]) -> None:
    if any(not isinstance(pair.prompt, str) for pair in pairs):
        raise InputError("a conversation does not fit into a CSV cell; save as .jsonl or .parquet")
    write_csv_rows(pairs.rows(), _columns(pairs), out)


def write_csv_rows(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], out: IO[bytes]) -> None:
    text = io.TextIOWrapper(out, encoding="utf-8", newline="")
    writer = csv.DictWriter(text, columns)
    writer.writeheader()
    writer.writerows(rows)
    text.detach()  # flushes, and leaves `out` open for its owner


def write_parquet(pairs: PairSet, out: IO[bytes]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if len({isinstance(pair.prompt, str) for pair in pairs}) > 1:
        raise InputError(
            "a parquet column holds either texts or conversations, and these pairs have both; save as .jsonl"
        )
    content = pa.string()
    if pairs and not isinstance(pairs[0].prompt, str):
        content = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
    types = dict.fromkeys(("prompt", "chosen", "rejected"), content) | {"flipped": pa.bool_()}
    schema = pa.schema([(name, types.get(name, pa.string())) for name in _columns(pairs)])
    rows = pairs.rows()
    with pq.ParquetWriter(out, schema) as writer:
        for _ in range(0, len(pairs), ROW_GROUP):
            writer.write_table(pa.Table.from_pylist(list(islice(rows, ROW_GROUP)), schema=schema))


WRITERS: Mapping[str, Callable[[PairSet, IO[bytes]], None]] = {
    "jsonl": write_jsonl,
    "json": write_json,
    "csv": write_csv,
    "parquet": write_parquet,
}


def _columns(pairs: PairSet) -> list[str]:
    """`flipped` and `subset` only where some pair has them, as in `PairSet.rows`."""
    absent = {"flipped"} if all(pair.flipped is None for pair in pairs) else set()
    absent |= {"subset"} if all(pair.subset is None for pair in pairs) else set()
    return [name for name in COLUMNS if name not in absent]
