"""Where a bad input is tried: a folder as a user has it, the real command, and what it left behind."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
import torch
import typer

sys.path.insert(0, str(Path(__file__).parent))

from corpus import PAIRS, jsonl

import tiny
from gapo.cli.main import app

COMMAND = typer.main.get_command(app)  # typer builds it again for every call, which takes longer than most of them


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory) -> Path:
    """A whole model, to be spoilt in copies."""
    folder = tmp_path_factory.mktemp("whole") / "model"
    tiny.llama(dtype=torch.float32).save_pretrained(folder)
    tiny.tiny_tokenizer(tiny.CHAT).save_pretrained(folder)
    return folder


@pytest.fixture
def place(tmp_path, model_folder, monkeypatch) -> Path:
    """A folder with a sound model, sound pairs and something at the output path already; the cache is elsewhere."""
    here = tmp_path / "here"
    here.mkdir()
    shutil.copytree(model_folder, here / "model")
    (here / "pairs.jsonl").write_bytes(jsonl(*PAIRS))
    (here / "out.jsonl").write_bytes(b"what was here before\n")
    monkeypatch.chdir(here)
    monkeypatch.setenv("GAPO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("gapo.cli.main.app", COMMAND)
    monkeypatch.delenv("GAPO_DEBUG", raising=False)
    monkeypatch.setattr(
        "gapo.runs.machines.matmul_peak", lambda *_, **__: 1e10
    )  # a dry run would measure half a second
    return here
