"""How large the runs of a study are: the miniature lab, or a real language model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gapo.errors import InputError, did_you_mean


@dataclass(frozen=True)
class Scale:
    """The recipe that every run begins with, what all studies change in it, and how many seeds are usual.

    `validation` is what tuning changes so that its pairs are held out of the training prompts. `step_pairs` is
    the pairs of one optimiser step. `run_seconds` is what a run takes about, until one was measured.
    """

    name: str
    recipe: str
    changes: dict[str, Any] = field(hash=False)
    validation: dict[str, Any] = field(hash=False)
    seeds: int
    step_pairs: int
    run_seconds: float
    words: str


QUIET = {"train.disable_tqdm": True, "train.save_strategy": "no"}
MINI = Scale(
    name="mini",
    recipe="mini",
    changes={
        **QUIET,
        "data.limit": 1600,
        "noise.kind": "random",
        "noise.rate": 0.0,
        "anchor.engine": "bank",
        "train.per_device_train_batch_size": 32,
    },
    validation={"data.limit": None, "data.eval": None, "data.eval_fraction": 0.5, "data.eval_limit": 800},
    seeds=5,
    step_pairs=32,
    run_seconds=10,
    words="The lab: a model of half a million weights in a world whose true quality is known; one epoch over 1,600 "
    "pairs in steps of 32, accuracy on 800 clean test pairs, win rates on 400 prompts that nothing else uses",
)
SMOLLM2 = Scale(
    name="smollm2",
    recipe="quickstart",
    changes={
        **QUIET,
        "noise.kind": "random",
        "noise.rate": 0.0,
        "train.max_steps": 20,
        "train.per_device_train_batch_size": 4,
        "train.gradient_accumulation_steps": 4,
    },
    validation={"data.eval": None, "data.eval_fraction": 0.25},
    seeds=2,
    step_pairs=16,
    run_seconds=600,
    words="SmolLM2-135M-Instruct on the courtesy pairs, 20 steps of 16; accuracy on 80 clean test pairs. There is no "
    "judge at this scale, so columns of win rates and skill stay empty",
)
SCALES = {scale.name: scale for scale in (MINI, SMOLLM2)}


def scale_of(name: str) -> Scale:
    if name not in SCALES:
        raise InputError(f"unknown scale {name!r}; {did_you_mean(name, SCALES)}")
    return SCALES[name]
