"""The sets we develop with load, nearly without bad rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapo.pairs.formats import load_pairs

DATA = Path(__file__).resolve().parents[3].parent / "shared" / "data"


@pytest.mark.parametrize(
    ("name", "rows", "bad", "chats"),
    [
        ("hh/train.jsonl.gz", 5535, 0, 5535),
        ("hh/test.jsonl.gz", 1254, 0, 1254),
        ("polite/train.jsonl.gz", 729, 3, 0),
        ("polite/test.jsonl.gz", 152, 1, 0),
        ("chat_demo/pairs.jsonl.gz", 300, 0, 300),
        ("judges/train.jsonl.gz", 2988, 0, 0),
        ("judges/test.jsonl.gz", 815, 0, 0),
        ("llmbar/test.jsonl.gz", 885, 2, 13),  # a few prompts are Anthropic HH dialogues
    ],
)
def test_a_real_set_loads(name: str, rows: int, bad: int, chats: int) -> None:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{name} is not beside the project; it is never shipped")
    pairs = load_pairs(path)
    assert len(pairs) + len(pairs.bad_rows) == rows
    assert len(pairs.bad_rows) == bad
    prompts = [pair.prompt for pair in pairs if isinstance(pair.prompt, tuple)]
    assert len(prompts) == chats
    assert all(prompt[-1].role == "user" for prompt in prompts)
