"""Rows that are no pairs, in every kind of file that can hold them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from corpus import FLIP, PAIRS, Case, Write, jsonl

GOOD = PAIRS[0]
TURNS = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hello there"}]
OTHER = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "no"}]


def data_case(name: str, file: str, content: bytes | Write, says: str, where: str = "", command: str = FLIP) -> Case:
    """A file read by `gapo flip`, unless another command is named."""

    def write(folder: Path) -> None:
        if callable(content):
            content(folder / file)
        else:
            (folder / file).write_bytes(content)

    return Case(name, tuple(command.format(file=file).split()), says, where or file, write)


def row_cases() -> list[Case]:
    """One row that is no pair, in each kind of file that can hold it."""
    rows: dict[str, tuple[dict[str, Any], str]] = {
        "no chosen": ({"prompt": "a", "rejected": "b"}, "no column 'chosen'"),
        "no rejected": ({"prompt": "a", "chosen": "b"}, "no column 'rejected'"),
        "no columns of ours": ({"question": "a", "answer": "b"}, "no column 'chosen' and 'rejected'"),
        "empty chosen": ({**GOOD, "chosen": ""}, "empty response"),
        "blank rejected": ({**GOOD, "rejected": " \n\t"}, "empty response"),
        "empty prompt": ({**GOOD, "prompt": ""}, "empty prompt"),
        "blank prompt": ({**GOOD, "prompt": "\u2003\n"}, "empty prompt"),
        "equal responses": ({**GOOD, "chosen": "x", "rejected": "x"}, "chosen equals rejected"),
        "nothing shared": ({"chosen": "one", "rejected": "two"}, "share no first words"),
    }
    return [
        data_case(f"{kind}: {name}", f"row.{kind}", lambda path, row=row: as_file(path, [row]), says)
        for name, (row, says) in rows.items()
        for kind in ("jsonl", "json", "csv", "parquet", "jsonl.gz", "json.gz", "csv.gz")
    ]


def as_file(path: Path, rows: list[dict[str, Any]]) -> None:
    kind = path.name.split(".")[1]
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
        return
    if kind == "csv":
        cells = [[*rows[0]], *([*row.values()] for row in rows)]
        content = "".join(",".join(f'"{cell}"' for cell in line) + "\n" for line in cells).encode()
    else:
        content = jsonl(*rows) if kind == "jsonl" else json.dumps(rows).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def typed_cases() -> list[Case]:
    """Values of a wrong type, which only JSON and Parquet can hold."""
    values: dict[str, tuple[dict[str, Any], str]] = {
        "chosen is a number": ({"chosen": 3}, "key 'chosen' is a number, not text"),
        "chosen is null": ({"chosen": None}, "key 'chosen' is null"),
        "chosen is true": ({"chosen": True}, "true or false, not text"),
        "chosen is an object": ({"chosen": {"text": "a"}}, "an object, not text"),
        "rejected is a list of texts": ({"rejected": ["a", "b"]}, "text where a message is needed"),
        "prompt is a number": ({"prompt": 1.5}, "key 'prompt' is a number"),
        "one text, one conversation": ({"chosen": TURNS}, "the other is messages"),
        "no messages": ({"chosen": [], "rejected": []}, "empty response"),
        "message without content": ({"chosen": [{"role": "user"}], "rejected": TURNS}, "key 'content'"),
        "message without role": ({"chosen": [{"content": "a"}], "rejected": TURNS}, "key 'role'"),
        "unknown role": ({"chosen": [{"role": "tool", "content": "a"}], "rejected": TURNS}, "unknown role"),
        "content is null": ({"chosen": [{"role": "user", "content": None}], "rejected": TURNS}, "null, not text"),
        "ends with the user": ({"chosen": [*TURNS, TURNS[0]], "rejected": TURNS}, "not one assistant turn"),
        "flipped is a word": ({"flipped": "perhaps"}, "key 'flipped'"),
        "flipped is a list": ({"flipped": [True]}, "key 'flipped'"),
        "id is a list": ({"id": [1]}, "key 'id'"),
        "id is an object": ({"id": {"a": 1}}, "key 'id'"),
        "subset is a number with a point": ({"subset": 0.5}, "key 'subset'"),
    }
    return [
        data_case(f"{kind}: {name}", f"typed.{kind}", lambda path, row=row: as_file(path, [{**GOOD, **row}]), says)
        for name, (row, says) in values.items()
        for kind in ("jsonl", "parquet")
        if not (kind == "parquet" and name in ("no messages",))  # Parquet has no type for a list of nothing
    ]


def shapes() -> list[Case]:
    """Rows of known forms with a known form's own mistakes."""
    human = "\n\nHuman: hello\n\nAssistant:"
    rows: dict[str, tuple[dict[str, Any], str]] = {
        "HH: different prompts": (
            {"chosen": f"{human} yes", "rejected": "\n\nHuman: bye\n\nAssistant: no"},
            "different prompts",
        ),
        "HH: no answer": ({"chosen": f"{human} ", "rejected": f"{human} no"}, "empty response"),
        "HH: same answers": ({"chosen": f"{human} no", "rejected": f"{human}  no "}, "chosen equals rejected"),
        "HH: an assistant without a human": (
            {"chosen": "\n\nAssistant: a", "rejected": "\n\nAssistant: b"},
            "empty prompt",
        ),
        "TRL: prompt is a conversation without end": (
            {"prompt": TURNS, "chosen": "a", "rejected": "b"},
            "prompt ends with the assistant",
        ),
        "TRL: empty conversation": ({"prompt": [], "chosen": "a", "rejected": "b"}, "empty prompt"),
        "TRL: other conversation": (
            {"prompt": [{"role": "user", "content": "else"}], "chosen": TURNS, "rejected": OTHER},
            "repeat another conversation",
        ),
        "UltraFeedback: equal replies": ({"prompt": "hello", "chosen": TURNS, "rejected": TURNS}, "equals rejected"),
        "UltraFeedback: empty reply": (
            {"prompt": "hello", "chosen": [TURNS[0], {"role": "assistant", "content": ""}], "rejected": TURNS},
            "empty response",
        ),
        "UltraFeedback: reply missing": (
            {"prompt": "hello", "chosen": [TURNS[0]], "rejected": TURNS},
            "not one assistant",
        ),
        "UltraFeedback: replies of the user": (
            {
                "prompt": "hello",
                "chosen": [{"role": "user", "content": "a"}],
                "rejected": [{"role": "user", "content": "b"}],
            },
            "not one assistant turn",
        ),
    }
    return [data_case(name, "shape.jsonl", jsonl(row), says) for name, (row, says) in rows.items()]


ROWS = [*row_cases(), *typed_cases(), *shapes()]
