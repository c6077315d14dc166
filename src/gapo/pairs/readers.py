"""The rows of one file, for each kind of file. What a row means is decided in `rows.py`."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from gapo.errors import InputError
from gapo.pairs.json_files import read_json, read_jsonl
from gapo.pairs.opened import need_lone_split, open_text, readable, skip_line
from gapo.pairs.pair import BadRow
from gapo.pairs.rows import COLUMNS, NOT_UTF8, WRONG_TYPE
from gapo.pairs.table import LONGEST_ROW, TOO_LONG, Row, Table, one_line

if TYPE_CHECKING:
    import pyarrow as pa

NOT_CSV = "not CSV"
LONGEST_CELL = LONGEST_ROW  # the csv module stops at 131,072 characters unless told otherwise
BATCH_ROWS, BATCH_BYTES = 1024, 2**25  # of a Parquet file at once


def read_csv(path: Path, split: str | None = None) -> Table:
    need_lone_split(path, split)
    try:
        with readable(path), open_text(path) as file:
            header = next(csv.reader(Lines(file), strict=True), None)  # as strict as the rows are read
    except csv.Error as error:
        raise InputError(f"{path} is not CSV ({error}); the first line must name the columns") from None
    if header is None:
        return Table(path.name, ())
    columns = tuple(cell.strip() for cell in header)
    _refuse_twins(path, columns)
    return Table(path.name, _csv_rows(path, columns), columns)


def read_parquet(path: Path, split: str | None = None) -> Table:
    import pyarrow.parquet as pq

    need_lone_split(path, split)
    with readable(path), _parquet(path):
        columns = tuple(pq.read_schema(path).names)
    _refuse_twins(path, columns)
    return Table(path.name, _parquet_rows(path), columns)


READERS: Mapping[str, Callable[[Path, str | None], Table]] = {
    "jsonl": read_jsonl,
    "json": read_json,
    "csv": read_csv,
    "parquet": read_parquet,
}


def _refuse_twins(path: Path, columns: tuple[str, ...]) -> None:
    twins = [name for name in COLUMNS if columns.count(name) > 1]
    if twins:
        raise InputError(f"{path} has the column {twins[0]!r} twice; keep the one that is meant")


@contextmanager
def _parquet(path: Path) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a whole parquet file ({one_line(error)}); write or copy it again") from None


class Lines:
    """The lines of a text for the csv module, which may put many of them into one record; no record is too long."""

    def __init__(self, file: IO[str]) -> None:
        self._file, self.taken = file, 0  # characters of this record

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> str:
        line = self._file.readline(LONGEST_ROW + 1)
        self.taken += len(line)
        if self.taken > LONGEST_ROW:
            skip_line(self._file, line)
            self.taken = 0
            raise csv.Error(TOO_LONG)
        if not line:
            raise StopIteration
        return line


def _csv_rows(path: Path, columns: tuple[str, ...]) -> Iterator[Row]:
    """Rows are named by the line they start on; the header is line 1."""
    usual = csv.field_size_limit(LONGEST_CELL)
    try:
        with readable(path), open_text(path) as file:
            lines = Lines(file)
            reader = csv.reader(lines, strict=True)  # strict: an open quote must not swallow the rest in silence
            next(reader)
            while True:
                lines.taken = 0
                where = f"{path.name}:{reader.line_num + 1}"
                try:
                    cells = next(reader)
                except StopIteration:
                    return
                except csv.Error as error:
                    yield BadRow(where, NOT_CSV, str(error))
                    continue
                if len(cells) > len(columns):
                    yield BadRow(where, NOT_CSV, f"{len(cells)} cells under {len(columns)} columns")
                elif cells:
                    yield where, dict(zip(columns, cells, strict=False))
    finally:
        csv.field_size_limit(usual)


def _parquet_rows(path: Path) -> Iterator[Row]:
    import pyarrow.parquet as pq

    with readable(path), _parquet(path), pq.ParquetFile(path) as file:
        wanted = [name for name in file.schema_arrow.names if name in COLUMNS]
        number = 0
        for batch in file.iter_batches(batch_size=_rows_at_once(file.metadata), columns=wanted):
            for row in _batch_rows(batch):
                number += 1
                where = f"{path.name}:{number}"
                yield BadRow(where, row.reason, row.detail) if isinstance(row, BadRow) else (where, row)


def _rows_at_once(about: pa.parquet.FileMetaData) -> int:
    """Fewer than usual where rows are long on average, by what the file says of itself."""
    groups = [about.row_group(index) for index in range(about.num_row_groups)]
    longest = max((group.total_byte_size // max(group.num_rows, 1) for group in groups), default=0)
    return max(1, min(BATCH_ROWS, BATCH_BYTES // max(longest, 1)))


def _batch_rows(batch: pa.RecordBatch) -> Iterator[object]:
    """At once where the text is sound; one by one where it is not, so that a broken byte costs one row."""
    if batch.nbytes <= LONGEST_ROW:
        try:
            yield from batch.to_pylist()
            return
        except (UnicodeDecodeError, ValueError):
            pass
    for row in (batch.slice(index, 1) for index in range(batch.num_rows)):
        try:
            yield row.to_pylist()[0] if row.nbytes <= LONGEST_ROW else BadRow("", TOO_LONG, "")
        except UnicodeDecodeError as error:
            yield BadRow("", NOT_UTF8, str(error))
        except ValueError as error:  # a time that Python cannot express, for one
            yield BadRow("", WRONG_TYPE, one_line(error))
