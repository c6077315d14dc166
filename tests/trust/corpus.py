"""What a case of bad input is, how the command is run on it, and what must be true afterwards."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gapo.cli.main import main

GENERIC = "this did not work"  # what `main` says when nobody of ours did
WAY_OUT = re.compile(r"; |must |did you mean|known: |\buse |\bgive ")
LONGEST_SENTENCE = 600
PAIRS = [
    {"prompt": f"tell me about a {animal}", "chosen": f"it {does} well", "rejected": f"no {animal} {does}"}
    for animal, does in (("cat", "sleeps"), ("dog", "runs"), ("bird", "sings"), ("fish", "eats"))
]
FLIP = "flip {file} out.jsonl --force --quiet"
TRAIN = "train mini model.name=model data.train=pairs.jsonl train.use_cpu=true train.output_dir=run --quiet"

Write = Callable[[Path], Any]


@dataclass(frozen=True)
class Case:
    """One bad input. `write` spoils the folder; `command` reads it; the sentence must match `says` and name `where`."""

    name: str
    command: tuple[str, ...]
    says: str
    where: str
    write: Write = lambda folder: None


def jsonl(*rows: Any) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def told(command: Iterable[str], monkeypatch, capsys) -> tuple[int, str]:
    """Exit code and stderr of the real entry point."""
    monkeypatch.setattr(sys, "argv", ["gapo", *command])
    capsys.readouterr()
    code = 0
    try:
        main()
    except SystemExit as leaving:
        code = int(leaving.code or 0)
    return code, capsys.readouterr().err


def content_of(folder: Path) -> dict[str, bytes | None]:
    """Every file byte for byte, and every folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if not path.is_fifo()
    }


def check_sentence(code: int, words: str, says: str, where: str) -> None:
    assert code == 2, (code, words)
    assert "Traceback" not in words
    assert GENERIC not in words, words
    assert words.startswith("gapo: "), words
    assert words.count("\n") == 1, words
    assert len(words) < LONGEST_SENTENCE, f"{len(words)} characters: {words[:300]}"
    assert re.search(says, words), f"{says!r} is not in {words!r}"
    assert where in words, f"{where!r} is not named in {words!r}"
    assert WAY_OUT.search(words), f"no way out in {words!r}"
    assert words.strip().isprintable(), f"control characters in {words!r}"
