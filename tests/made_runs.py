"""Run directories made from a seed: what training leaves behind, without training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

RECIPE = {
    "model": {"name": "mini-start"},
    "data": {"train": "lab:train", "test": "lab:test"},
    "noise": {"kind": "random", "rate": 0.2},
    "objective": {"name": "gapo", "beta": 2.5, "gamma": 0.1},
    "anchor": {"radius": 0.05, "multiplier": 8},
    "train": {"learning_rate": 5e-7, "steps": 100},
}
ENVIRONMENT = {
    "versions": {"gapo": "0.1.0", "torch": "2.9.0", "numpy": "2.4.6"},
    "threads": 2,
    "seed": 0,
    "command": ["gapo", "train", "recipes/mini.yaml", "--out", "runs/my run"],
}
REPLIES = [
    {"prompt": "What is the capital of France?", "before": "A city.", "after": "Paris."},
    {
        "prompt": "Name three primes.",
        "before": "1, 2, 4",
        "after": "2, 3 and 5.\n\nEach has no divisor but itself and one.",
    },
]


def make_steps(count: int, rng: np.random.Generator, *, anchor: bool) -> list[dict[str, Any]]:
    """One row per optimiser step, with the shapes of a run that goes well."""
    time = np.linspace(0, 1, count)
    noise = rng.normal(size=(6, count))
    gap, weight = 0.06 + 0.03 * time + 0.01 * noise[0], 1.25 - 0.2 * time + 0.03 * noise[1]
    rows = []
    for at in range(count):
        row = {
            "step": at + 1,
            "epoch": (at + 1) / count,
            "loss": 0.69 - 0.15 * time[at] + 0.03 * noise[2, at],
            "margin": 0.5 * time[at] + 0.08 * noise[3, at],
            "accuracy": float(np.clip(0.52 + 0.18 * time[at] + 0.06 * noise[4, at], 0, 1)),
            "weight_mean": weight[at],
            "weight_std": 0.2,
            "weight_min": weight[at] - 0.5,
            "weight_max": weight[at] + 0.4,
            "chosen_logp": -1.5 - 0.1 * time[at] + 0.02 * noise[5, at],
            "rejected_logp": -1.5 - 0.6 * time[at] + 0.02 * noise[1, at],
            "drift": 0.2 * time[at] ** 1.5,
            "grad_norm": 1 + 0.2 * abs(noise[0, at]),
            "tokens_per_second": 5000.0,
            "learning_rate": 5e-7 * (1 - time[at]),
            "gap_mean": gap[at] if anchor else None,
            "gap_std": 0.03 if anchor else None,
        }
        if anchor:
            row["self_check_ratio"] = 1 + 0.05 * noise[3, at]
        rows.append(row)
    return rows


def make_pairs(steps: int, per_step: int, rng: np.random.Generator, *, anchor: bool, flips: bool | None) -> pa.Table:
    """One row per pair per step; flipped pairs come to weigh less, short ones more."""
    count = steps * per_step
    step = np.repeat(np.arange(1, steps + 1), per_step)
    flipped = rng.random(count) < 0.2 if flips else np.zeros(count, dtype=bool)
    tokens = rng.lognormal(3.6, 0.6, size=(2, count)).astype(int) + 2
    term = 1 / tokens[0] + 1 / tokens[1]
    weight = 1.2 - 0.2 * flipped * step / steps + 1.5 * term + 0.15 * rng.normal(size=count)
    margin = rng.normal(size=count)
    return pa.table(
        {
            "step": step,
            "epoch": step / steps,
            "pair_id": [f"{value:012x}" for value in rng.permutation(count) + 2**40],
            "margin": margin,
            "anchor_margin": margin - 0.05 if anchor else pa.nulls(count, pa.float64()),
            "gap": np.full(count, 0.05) if anchor else pa.nulls(count, pa.float64()),
            "weight": weight,
            "loss": np.full(count, 0.6),
            "chosen_tokens": tokens[0],
            "rejected_tokens": tokens[1],
            "chosen_logp": -rng.random(count),
            "rejected_logp": -rng.random(count),
            "flipped": pa.nulls(count, pa.bool_()) if flips is None else pa.array(flipped),
        }
    )


def make_evals(objective: str, after: float, pairs: int) -> dict[str, Any]:
    """Results before and after, intervals as given by the evaluation."""
    return {
        "objective": objective,
        "pairs": pairs,
        "before": {"accuracy": 0.512, "accuracy_interval": [0.472, 0.552], "margin": 0.011, "chosen_logp": -1.51},
        "after": {
            "accuracy": after,
            "accuracy_interval": [after - 0.035, after + 0.035],
            "margin": 0.42,
            "chosen_logp": -1.6,
        },
        "measures": {"win_rate": 0.61, "lc_win_rate": 0.58, "skill_kept": 0.97, "drift": 0.21},
        "seconds": 312.4,
        "seed": 0,
        "noise": {"kind": "random", "rate": 0.2, "flipped": 640, "of": 3200},
        "replies": REPLIES,
        "warnings": [],
    }


def make_run(
    root: Path,
    name: str = "gapo-20",
    *,
    objective: str = "gapo",
    after: float = 0.746,
    held_out: int = 600,
    steps: int = 60,
    per_step: int = 8,
    anchor: bool = True,
    flips: bool | None = True,
    evals: dict[str, Any] | None = None,
    seed: int = 0,
) -> Path:
    """A run directory; each argument bends one thing."""
    rng = np.random.default_rng(seed)
    folder = root / "runs" / name
    folder.mkdir(parents=True)
    recipe = {**RECIPE, "objective": {"name": objective}, "anchor": RECIPE["anchor"] if anchor else None}
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))
    (folder / "environment.json").write_text(json.dumps(ENVIRONMENT))
    rows = make_steps(steps, rng, anchor=anchor)
    (folder / "steps.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(make_pairs(steps, per_step, rng, anchor=anchor, flips=flips), folder / "pairs.parquet")
    results = {**make_evals(objective, after, held_out), **(evals or {})}
    (folder / "evals.json").write_text(json.dumps(results))
    return folder
