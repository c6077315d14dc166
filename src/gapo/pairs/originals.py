"""Some rows of a data set written out as they were read: other columns, spelling and order of fields are kept.

Into a file of the same kind rows go as they stand: lines of JSONL and records of CSV byte for byte, rows of Parquet
with their schema. Into another kind they go field by field.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from gapo.errors import DiskTrouble, InputError
from gapo.pairs.files import kind_of
from gapo.pairs.json_files import json_rows
from gapo.pairs.opened import is_gz, open_binary, open_text
from gapo.pairs.readers import LONGEST_CELL
from gapo.pairs.sources import PairSource, file_of, open_source
from gapo.pairs.table import Row
from gapo.pairs.writers import write_csv_rows
from gapo.storage import whole_file

BATCH = 1024  # rows of a Parquet file at once


def row_number(source: str) -> int:
    """The row, line or record that a pair says it comes from (`file:12`)."""
    _, _, number = source.rpartition(":")
    if not number.isdecimal():
        raise InputError(f"the pair from {source!r} does not say which row it was; load the pairs from a file")
    return int(number)


def save_originals(source: PairSource, numbers: Iterable[int], out: Path, split: str | None = None) -> None:
    """Write the rows of these numbers, in their order, to a file of the kind its suffix says."""
    kind, wanted = kind_of(out), frozenset(numbers)
    path = file_of(source, split) if isinstance(source, str) else None
    if path is not None and path.exists() and out.exists() and path.samefile(out):
        raise InputError(f"{out} is the file the pairs are read from; choose another name")
    try:
        with whole_file(out) as part, _opened(part, is_gz(out)) as file:
            if path is not None and kind_of(path) == kind and kind in _COPIERS:
                _COPIERS[kind](path, wanted, file)
            else:
                _WRITERS[kind](list(_rows(source, split, path, wanted)), file)
    except DiskTrouble:
        raise
    except OSError as error:
        raise InputError(f"{out} cannot be written ({error.strerror or error}); choose another place") from None


@contextmanager
def _opened(path: Path, packed: bool) -> Iterator[IO[bytes]]:
    with path.open("wb") as file:
        if not packed:
            yield file
            return
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as inner:
            yield cast(IO[bytes], inner)


# ---- the same kind: as they stand ----


def _copy_jsonl(path: Path, wanted: frozenset[int], out: IO[bytes]) -> None:
    with open_binary(path) as lines:
        for number, line in enumerate(lines, start=1):
            if number in wanted:
                out.write(line if line.endswith(b"\n") else line + b"\n")


def _copy_csv(path: Path, wanted: frozenset[int], out: IO[bytes]) -> None:
    """Records are named by the line they start on and may span several; the header goes first."""
    for start, text, _ in _csv_records(path):
        if start == 1 or start in wanted:
            out.write((text if text.endswith(("\n", "\r")) else text + "\n").encode(errors="surrogateescape"))


def _csv_records(path: Path) -> Iterator[tuple[int, str, list[str]]]:
    usual = csv.field_size_limit(LONGEST_CELL)
    taken: list[str] = []

    def watched(lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            taken.append(line)
            yield line

    try:
        with open_text(path) as lines:
            reader = csv.reader(watched(lines), strict=True)
            start = 1
            while True:
                try:
                    cells = next(reader)
                except StopIteration:
                    return
                except csv.Error:  # no pair was read from it
                    cells = []
                yield start, "".join(taken), cells
                taken.clear()
                start = reader.line_num + 1
    finally:
        csv.field_size_limit(usual)


def _copy_parquet(path: Path, wanted: frozenset[int], out: IO[bytes]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file, pq.ParquetWriter(out, file.schema_arrow) as writer:
        number = 1
        for batch in file.iter_batches(batch_size=BATCH):
            kept = [i for i in range(batch.num_rows) if number + i in wanted]
            number += batch.num_rows
            if kept:
                writer.write_table(pa.Table.from_batches([batch]).take(pa.array(kept)))


_COPIERS = {"jsonl": _copy_jsonl, "csv": _copy_csv, "parquet": _copy_parquet}


# ---- another kind, or no file: field by field ----


def _rows(source: PairSource, split: str | None, path: Path | None, wanted: frozenset[int]) -> Iterator[dict[str, Any]]:
    for number, row in _all_rows(source, split, path):
        if number in wanted and isinstance(row, dict):
            yield row


def _all_rows(source: PairSource, split: str | None, path: Path | None) -> Iterator[tuple[int, object]]:
    kind = kind_of(path) if path is not None else None
    if path is not None and kind == "csv":
        header: list[str] = []
        for start, _, cells in _csv_records(path):
            header = header or [cell.strip() for cell in cells]
            yield start, dict(zip(header, cells, strict=False))
    elif path is not None and kind == "parquet":
        import pyarrow.parquet as pq

        yield from enumerate(pq.read_table(path).to_pylist(), start=1)
    elif path is not None and kind == "json":
        yield from _numbered(json_rows(path, split))
    elif path is None and hasattr(source, "column_names"):
        yield from enumerate(cast(Iterable[object], source), start=1)
    else:
        yield from _numbered(open_source(source, split)[1].rows)


def _numbered(rows: Iterable[Row]) -> Iterator[tuple[int, object]]:
    for row in rows:
        if isinstance(row, tuple):
            yield row_number(row[0]), row[1]


def _write_jsonl(rows: Sequence[dict[str, Any]], out: IO[bytes]) -> None:
    for row in rows:
        out.write(json.dumps(row, ensure_ascii=False).encode(errors="surrogatepass") + b"\n")


def _write_json(rows: Sequence[dict[str, Any]], out: IO[bytes]) -> None:
    out.write(json.dumps(rows, ensure_ascii=False, indent=1).encode(errors="surrogatepass") + b"\n")


def _write_csv(rows: Sequence[dict[str, Any]], out: IO[bytes]) -> None:
    if any(isinstance(value, list | dict) for row in rows for value in row.values()):
        raise InputError("a conversation does not fit into a CSV cell; save as .jsonl or .parquet")
    write_csv_rows(rows, list(dict.fromkeys(name for row in rows for name in row)), out)


def _write_parquet(rows: Sequence[dict[str, Any]], out: IO[bytes]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        names = list(dict.fromkeys(name for row in rows for name in row))
        table = pa.table({name: pa.array([row.get(name) for row in rows]) for name in names})
    except pa.ArrowException as error:
        first = str(error).splitlines()[0][:200]
        raise InputError(f"these rows do not fit into Parquet columns ({first}); save as .jsonl") from None
    pq.write_table(table, out)


_WRITERS = {"jsonl": _write_jsonl, "json": _write_json, "csv": _write_csv, "parquet": _write_parquet}
