"""Every case once alone, once on two DDP processes, once on two that share the weights out."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

from cases import CASES, DDP, FSDP2

import launches

WORKER = str(Path(__file__).with_name("worker.py"))


class Found(dict):
    """What the cases of one kind of launch left behind."""

    def __init__(self, folder: Path) -> None:
        super().__init__({path.stem: torch.load(path, weights_only=False) for path in folder.glob("*.pt")})
        self.folder = folder


def _found(folder: Path, kind: str, names: list[str], processes: int) -> Found:
    launches.together([WORKER, kind, str(folder), *names], processes)
    return Found(folder)


@pytest.fixture(scope="session")
def alone(tmp_path_factory) -> Found:
    return _found(tmp_path_factory.mktemp("alone"), "one", list(CASES), 1)


@pytest.fixture(scope="session")
def ddp(tmp_path_factory) -> Found:
    return _found(tmp_path_factory.mktemp("ddp"), "ddp", [*DDP, "rank_direction"], 2)


@pytest.fixture(scope="session")
def fsdp2(tmp_path_factory) -> Found:
    return _found(tmp_path_factory.mktemp("fsdp2"), "fsdp2", FSDP2, 2)
