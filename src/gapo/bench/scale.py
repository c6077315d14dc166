"""How the start of a run grows with the number of pairs: seconds to the first step and memory, cold and warm."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gapo.bench.first_step import PHASES, first_step
from gapo.bench.records import Lines
from gapo.bench.summary import environment_facts
from gapo.bench.synthetic import write_model, write_rows
from gapo.errors import InputError
from gapo.storage import whole_file

SIZES = (10_000, 100_000, 1_000_000)
TARGET_PAIRS, TARGET_SECONDS, TARGET_BYTES = 1_000_000, 60, 2**30
Say = Callable[[str], None]


def sizes_of(words: str | None) -> list[int]:
    """`10000,100000` as numbers."""
    try:
        sizes = [int(word.replace("_", "")) for word in words.split(",")] if words else list(SIZES)
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1:
        raise InputError(f"--pairs with --scale takes whole numbers with commas, like 10000,100000, not {words!r}")
    return sorted(set(sizes))


def run_scale(sizes: Sequence[int], folder: Path, say: Say = print) -> Path:
    """Measure every size in processes of its own; lines are written as they end, the table last."""
    lines = Lines(folder / "data.jsonl").begin()
    with tempfile.TemporaryDirectory(prefix="gapo-scale-") as name:
        room = Path(name)
        write_model(room / "model")
        for size in sizes:
            data = room / f"pairs-{size}.jsonl"
            write_rows(data, size)
            for state in ("cold", "warm"):
                found = first_step(data, room / "model", room / "run", room / "cache")
                held = {
                    "file_bytes": data.stat().st_size,
                    "cache_bytes": _size(room / "cache"),
                    "load": os.getloadavg()[0],
                }
                lines.add(state=state, **held, **found)
                say(
                    f"{size:>9,} pairs, {state}: {found['seconds']:.1f} s to the end of the first step, "
                    f"{found['peak_bytes'] / 2**20:.0f} MiB at the peak"
                )
                shutil.rmtree(room / "run", ignore_errors=True)
            shutil.rmtree(room / "cache", ignore_errors=True)
            data.unlink()
    table = folder / "data.md"
    with whole_file(table) as part:
        part.write_text(scale_table(lines.read()), encoding="utf-8")
    return table


def scale_table(rows: Sequence[dict[str, Any]]) -> str:
    """The measurements as Markdown, and whether the targets are met."""
    head = ["pairs", "cache", "seconds", *PHASES, "CPU seconds", "peak MiB", "above libraries", "a worker's peak"]
    text = ["# From the start of the interpreter to the end of the first optimiser step", ""]
    text += [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    text += [f"| {' | '.join(_cells(row))} |" for row in rows]
    text += ["", *_verdict(rows), "", *NOTES, "", _machine(rows), ""]
    return "\n".join(text)


NOTES = (
    "Synthetic pairs (`gapo.bench.synthetic`): a prompt of 24 tokens and two replies of 40 in the mean; byte-level BPE",
    "with 4,096 tokens; a random model of two layers, so that what is measured is the data's way; GAPO, 32 pairs a",
    "step, 20 % of the labels flipped. `cold`: nothing in gapo's cache. `warm`: the same command again; the system's",
    "file cache is warm too. `pairs`: reading or opening the pairs. `token ids`: tokenising or opening them, and the",
    "checks before training. Fewer than 20,000 pairs stay in memory and are not cached.",
)


def _machine(rows: Sequence[dict[str, Any]]) -> str:
    facts = environment_facts()
    load = ", ".join(f"{row['load']:.1f}" for row in rows)
    return (
        f"{facts['cpu']}, {facts['cores']} cores; Python {facts['python']}, torch {facts['torch']}, transformers "
        f"{facts['transformers']}. Load of the machine at the end of each line: {load}."
    )


def _cells(row: dict[str, Any]) -> list[str]:
    above = row["peak_bytes"] - row["libraries_bytes"]
    return [
        f"{row['pairs']:,}",
        row["state"],
        f"**{row['seconds']:.1f}**",
        *(f"{row['phases'][phase]:.1f}" for phase in PHASES),
        f"{row['cpu_seconds']:.0f}",
        f"**{row['peak_bytes'] / 2**20:.0f}**",
        f"{above / 2**20:.0f}",
        f"{row['worker_peak_bytes'] / 2**20:.0f}" if row["worker_peak_bytes"] else "-",
    ]


def _verdict(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The targets, as sentences; sizes without a target have none."""
    said = []
    for row in rows:
        if row["pairs"] < TARGET_PAIRS:
            continue
        if row["state"] == "warm":
            met = "met" if row["seconds"] < TARGET_SECONDS else "missed"
            said.append(f"- First step within {TARGET_SECONDS} s of a warm cache: {met}, {row['seconds']:.1f} s.")
        above = row["peak_bytes"] - row["libraries_bytes"]
        met = "met" if above < TARGET_BYTES else "missed"
        said.append(f"- At most 1 GiB above the libraries ({row['state']}): {met}, {above / 2**20:.0f} MiB.")
    return said


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
