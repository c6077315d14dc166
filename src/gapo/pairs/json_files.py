"""Rows of JSONL and JSON files, one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gapo.errors import InputError
from gapo.pairs.json_stream import JsonStream, NotJson, RowTooLong, parsed
from gapo.pairs.opened import need_lone_split, open_binary, open_text, readable, skip_line
from gapo.pairs.pair import BadRow
from gapo.pairs.rows import NOT_UTF8
from gapo.pairs.table import LONGEST_ROW, TOO_LONG, Row, Table, numbered, pick_split

NOT_JSON = "not JSON"
_NO_LIST = "{} holds no list of rows; write [row, row, ...], or one row a line as .jsonl"


def read_jsonl(path: Path, split: str | None = None) -> Table:
    need_lone_split(path, split)
    return Table(path.name, _jsonl_rows(path))


def read_json(path: Path, split: str | None = None) -> Table:
    """A list of rows, or an object with such a list under "data", "train" or the name of the split."""
    return Table(path.name, json_rows(path, split))


def _jsonl_rows(path: Path) -> Iterator[Row]:
    """Line by line in bytes, so that one broken line costs one row."""
    with readable(path), open_binary(path) as file:
        number = 0
        while line := file.readline(LONGEST_ROW + 1):
            number += 1
            where = f"{path.name}:{number}"
            if len(line) > LONGEST_ROW:
                skip_line(file, line)
                yield BadRow(where, TOO_LONG, "")
            elif line.strip():
                yield _json_line(line, where)


def _json_line(line: bytes, where: str) -> Row:
    try:
        return where, parsed(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        return BadRow(where, NOT_UTF8, f"byte {line[error.start]:#04x} at column {error.start + 1}")
    except NotJson as error:
        return BadRow(where, NOT_JSON, str(error))


def json_rows(path: Path, split: str | None) -> Iterator[Row]:
    """Row by row; a broken byte costs its own row only, a broken bracket the whole file."""
    try:
        with readable(path), open_text(path) as file:
            stream = JsonStream(file)
            if not (first := stream.peek()):
                return
            if first == "[":
                need_lone_split(path, split)
                yield from numbered(path.name, stream.rows())
                stream.end()
                return
        if _is_json_lines(path):  # what `Dataset.to_json` writes into a .json file
            yield from read_jsonl(path, split).rows
        else:
            yield from numbered(path.name, _rows_of_object(path, split))
    except NotJson as error:
        raise InputError(f"{path} is not JSON ({error}); mend it, or use one object a line as .jsonl") from None


def _is_json_lines(path: Path) -> bool:
    with readable(path), open_binary(path) as file:
        first = file.readline(LONGEST_ROW)
        rest = any(line.strip() for line in iter(lambda: file.readline(LONGEST_ROW), b""))
    return rest and isinstance(_json_line(first, ""), tuple)


def _rows_of_object(path: Path, split: str | None) -> Iterator[object]:
    """The rows of a split. An object too large to be one row is gone through twice: for its keys, and for its rows."""
    with readable(path), open_text(path) as file:
        stream = JsonStream(file)
        try:
            content = stream.value()
            stream.end()
            yield from _list_of_rows(content, path, split)
            return
        except RowTooLong:
            pass
    with readable(path), open_text(path) as file:
        stream = JsonStream(file)
        lists: dict[str, object] = {key: _passed_over(stream) for key in stream.members()}
        stream.end()
    wanted = pick_split(lists, split, str(path))
    with readable(path), open_text(path) as file:
        stream = JsonStream(file)
        for key in stream.members():
            if lists[key] is wanted and stream.peek() == "[":
                yield from stream.rows()
                return
            _passed_over(stream)
    raise InputError(_NO_LIST.format(path))


def _passed_over(stream: JsonStream) -> object:
    """A value that is not kept: a list leaves an empty one."""
    if stream.peek() != "[":
        return stream.value()
    for _ in stream.rows():
        pass
    return []


def _list_of_rows(content: object, path: Path, split: str | None) -> list[object]:
    if isinstance(content, dict):
        content = pick_split(content, split, str(path))
    else:
        need_lone_split(path, split)
    if not isinstance(content, list):
        raise InputError(_NO_LIST.format(path))
    return content
