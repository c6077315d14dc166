"""Run directories made from a seed: what training leaves behind, without training."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import made_runs


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    return partial(made_runs.make_run, tmp_path)
