"""A tiny model and pairs of text on disk; nothing is shared with the user's cache."""

import json

import pytest
import torch

import tiny
from runs_of_tests import text_rows


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with `model`, `other` (another seed) and `pairs.jsonl` with two subsets."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GAPO_CACHE", str(tmp_path / "cache"))
    for name, seed in (("model", 0), ("other", 1)):
        tiny.llama(dtype=torch.float32, seed=seed).save_pretrained(tmp_path / name)
        tiny.tiny_tokenizer().save_pretrained(tmp_path / name)
    rows = [{**row, "subset": ("easy", "hard")[i % 2]} for i, row in enumerate(text_rows(24))]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path
