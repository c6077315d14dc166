"""The cost model of docs/distributed.md against two processes that really run: every FLOP and every byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from costs import RUNS

import launches

PAGE = Path(__file__).parents[2] / "docs" / "distributed.md"


@pytest.mark.parametrize("kind", list(RUNS))
def test_a_step_of_two_processes_costs_what_was_predicted(kind, tmp_path):
    launches.together([str(Path(__file__).with_name("costs.py")), kind, str(tmp_path)])
    for rank in (0, 1):
        found = json.loads((tmp_path / f"{kind}-{rank}.json").read_text())
        assert {name: one["counted"] for name, one in found.items()} == {
            name: one["predicted"] for name, one in found.items()
        }
        if rank == 0:
            assert all(row(name, kind, one["counted"]) in PAGE.read_text() for name, one in found.items())


def row(name, kind, counted):
    """How docs/distributed.md shows it."""
    label = "SimPO" if name == "simpo" else f"GAPO `{name}`"
    sizes = [counted["bytes"].get(which) for which in ("all_reduce", "all_gather", "reduce_scatter")]
    cells = [f"{size:,}" if size else "-" for size in (counted["flops"], *sizes)]
    return f"| {label} | {kind} | {' | '.join(cells)} |"
