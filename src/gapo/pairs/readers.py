"""The rows of one file, for each kind of file. What a row means is decided in `rows.py`."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from gapo.errors import InputError
from gapo.pairs.pair import BadRow
from gapo.pairs.rows import COLUMNS, NOT_UTF8
from gapo.pairs.table import LONE_SPLIT, Row, Table, numbered, one_line, pick_split

if TYPE_CHECKING:
    import pyarrow as pa

NOT_JSON = "not JSON"
NOT_CSV = "not CSV"
LONGEST_CELL = 2**31 - 1  # the csv module stops at 131,072 characters unless told otherwise


def is_gz(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def read_jsonl(path: Path, split: str | None = None) -> Table:
    _need_lone_split(path, split)
    return Table(path.name, _jsonl_rows(path))


def read_json(path: Path, split: str | None = None) -> Table:
    """A list of rows, or an object with such a list under "data", "train" or the name of the split."""
    return Table(path.name, json_rows(path, split))


def read_csv(path: Path, split: str | None = None) -> Table:
    _need_lone_split(path, split)
    try:
        with _readable(path), open_text(path) as lines:
            header = next(csv.reader(lines), None)
    except csv.Error as error:
        raise InputError(f"{path} is not CSV ({error}); the first line must name the columns") from None
    if header is None:
        return Table(path.name, ())
    columns = tuple(cell.strip() for cell in header)
    return Table(path.name, _csv_rows(path, columns), columns)


def read_parquet(path: Path, split: str | None = None) -> Table:
    import pyarrow.parquet as pq

    _need_lone_split(path, split)
    with _readable(path), _parquet(path):
        columns = tuple(pq.read_schema(path).names)
    return Table(path.name, _parquet_rows(path), columns)


READERS: Mapping[str, Callable[[Path, str | None], Table]] = {
    "jsonl": read_jsonl,
    "json": read_json,
    "csv": read_csv,
    "parquet": read_parquet,
}


def _need_lone_split(path: Path, split: str | None) -> None:
    """Asked for the test split, we must not hand out a file that holds something else."""
    if split not in LONE_SPLIT:
        raise InputError(
            f"{path} is one file without splits, so it has no {split!r}; give the path of that split's file"
        )


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """A file that breaks off or is something else is one sentence, not a traceback."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InputError(f"{path} is not a whole gzip file; copy or compress it again") from None
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror or one_line(error)}); check or copy it again"
        ) from None


@contextmanager
def _parquet(path: Path) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a whole parquet file ({one_line(error)}); write or copy it again") from None


def open_binary(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path, "rb")) if is_gz(path) else path.open("rb")


def open_text(path: Path) -> IO[str]:
    opener = gzip.open if is_gz(path) else open
    return cast(IO[str], opener(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline=""))


def _jsonl_rows(path: Path) -> Iterator[Row]:
    """Line by line in bytes, so that one broken line costs one row."""
    with _readable(path), open_binary(path) as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield _json_line(line, f"{path.name}:{number}")


def _json_line(line: bytes, where: str) -> Row:
    try:
        return where, json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        return BadRow(where, NOT_UTF8, f"byte {line[error.start]:#04x} at column {error.start + 1}")
    except json.JSONDecodeError as error:
        return BadRow(where, NOT_JSON, f"{error.msg.lower()} at column {error.colno}")
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits, a thousand brackets
        return BadRow(where, NOT_JSON, str(error))


def json_rows(path: Path, split: str | None) -> Iterator[Row]:
    """The only kind of file that is read whole: JSON has no rows before its last bracket."""
    with _readable(path), open_binary(path) as file:
        text = file.read().decode("utf-8-sig", errors="surrogateescape")  # a broken byte then costs its own row only
    if not text.strip():
        return
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        if _is_json_lines(text):  # what `Dataset.to_json` writes into a .json file
            del text
            yield from read_jsonl(path, split).rows
            return
        raise InputError(f"{path} is not JSON ({error}); mend it, or use one object a line as .jsonl") from None
    if isinstance(content, dict):
        content = pick_split(content, split, str(path))
    else:
        _need_lone_split(path, split)
    if not isinstance(content, list):
        raise InputError(f"{path} holds no list of rows; write [row, row, ...], or one row a line as .jsonl")
    yield from numbered(path.name, content)


def _is_json_lines(text: str) -> bool:
    first, _, rest = text.lstrip().partition("\n")
    return bool(rest.strip()) and isinstance(_json_line(first.encode(errors="surrogateescape"), ""), tuple)


def _csv_rows(path: Path, columns: tuple[str, ...]) -> Iterator[Row]:
    """Rows are named by the line they start on; the header is line 1."""
    usual = csv.field_size_limit(LONGEST_CELL)
    try:
        with _readable(path), open_text(path) as lines:
            reader = csv.reader(lines, strict=True)  # strict: an open quote must not swallow the rest in silence
            next(reader)
            while True:
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

    with _readable(path), _parquet(path), pq.ParquetFile(path) as file:
        wanted = [name for name in file.schema_arrow.names if name in COLUMNS]
        number = 0
        for batch in file.iter_batches(batch_size=1024, columns=wanted):
            for row in _batch_rows(batch):
                number += 1
                where = f"{path.name}:{number}"
                yield BadRow(where, NOT_UTF8, str(row)) if isinstance(row, UnicodeDecodeError) else (where, row)


def _batch_rows(batch: pa.RecordBatch) -> Iterator[object]:
    """At once where the text is sound; one by one where it is not, so that a broken byte costs one row."""
    try:
        yield from batch.to_pylist()
    except UnicodeDecodeError:
        for index in range(batch.num_rows):
            try:
                yield batch.slice(index, 1).to_pylist()[0]
            except UnicodeDecodeError as error:
                yield error
