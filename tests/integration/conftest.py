"""What tests of commands share."""

import json

import pytest
import torch

import tiny
from runs_of_tests import text_rows


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A place with a model folder and a data file, as a user has them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GAPO_CACHE", str(tmp_path / "cache"))
    tiny.llama(dtype=torch.float32).save_pretrained(tmp_path / "model")
    tiny.tiny_tokenizer().save_pretrained(tmp_path / "model")
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in text_rows(40)))
    return tmp_path
