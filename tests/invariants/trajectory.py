"""One training run on the lab, as numbers: `trajectory.py` records it, `trajectory.py OUT` is one of two processes."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from types import MethodType
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from configurations import ALL, CASES, CONFIGURATIONS, TWO_PASS, Configuration, cut

import gapo
import tiny
from gapo.errors import TrainingStopped
from gapo.pairs.token_cache import StoredTokens
from poison import poison_pairs
from runs_of_tests import StopAfter, trainer

RECORDED = Path(__file__).with_name("trajectory.json")
STEPS = 6
EPSILON = 1e-4  # Adam makes whole steps of gradients near 0: at 1e-8 float32's rounding is 4e-5 of the curve, here 2e-6
COLUMNS = ("margin", "anchor_margin", "gap", "weight", "loss", "chosen_logp", "rejected_logp")
LINES = ("loss", "margin", "gap_mean", "weight_mean", "self_check_ratio", "direction_norm", "grad_norm", "drift")
Trajectory = dict[str, Any]


def lab_in(dtype: torch.dtype) -> gapo.Policy:
    """The start model; in float64 with its norms and rotations, which transformers makes in float32.

    A cosine in float32 is another one on another processor, by 6e-8: too much for a trajectory that is kept to 1e-9.
    """
    policy = gapo.load_policy("lab")
    policy.model.to(dtype)
    if dtype == torch.float64:
        tiny.keep_double(policy.model)
        policy.model.model.rotary_emb.forward = MethodType(_turned, policy.model.model.rotary_emb)
    return policy


def _turned(self: torch.nn.Module, x: torch.Tensor, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin of t * base^(-2k/d)."""
    dimension = self.config.head_dim
    halves = torch.arange(0, dimension, 2, dtype=torch.float64) / dimension
    angles = position_ids[..., None] * self.config.rope_parameters["rope_theta"] ** -halves
    both = torch.cat([angles, angles], -1)
    return both.cos(), both.sin()


def lab_trainer(folder: Path, objective: str, how: Configuration, **options: Any) -> gapo.PreferenceTrainer:
    """24 pairs, a fifth with wrong labels, 8 a step: two epochs. Large steps, so that curves would part."""
    policy = lab_in(torch.float32 if how.single else torch.float64)
    noisy, _ = gapo.flip(gapo.load_pairs("lab")[:24], 0.2, seed=0)
    given = {"objective": objective, "max_steps": STEPS, "logging_steps": 1, "save_steps": 2, "adam_epsilon": EPSILON}
    given |= {**TWO_PASS, "per_device_train_batch_size": 8, "max_grad_norm": 1.0, **how.options, **options}
    return trainer(folder, noisy, model=policy.model, tokenizer=policy.tokenizer, **given)


def followed(folder: Path, name: str, objective: str) -> Trajectory | None:
    """Train in this configuration; what the first process wrote down."""
    how = CONFIGURATIONS[name]
    if how.resumed:  # stopped after step 5, of which there is no checkpoint, and taken up from that of step 4
        halted = lab_trainer(folder, objective, how, save_strategy="steps")
        halted.add_callback(StopAfter(5))
        halted.train()
    run = lab_trainer(folder, objective, how)
    assert isinstance(run.train_dataset.encoded, StoredTokens) == ("cache_tokens" in how.options)
    run.train(resume_from_checkpoint=how.resumed or None)
    return read(folder, run) if run.ranks.first else None


def read(folder: Path, run: gapo.PreferenceTrainer) -> Trajectory:
    """Each pair at each step, each step, and of every final weight its norm and two entries."""
    table = pq.read_table(folder / "pairs.parquet").to_pydict()
    lines = [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]
    weights = {name: p.detach().double().flatten() for name, p in run.model.named_parameters()}
    return {
        "pair_id": table["pair_id"],
        "pairs": {column: table[column] for column in COLUMNS if table[column][0] is not None},
        "steps": {key: [line[key] for line in lines] for key in LINES if lines[0][key] is not None},
        "weights": {name: [float(w.norm()), float(w[0]), float(w[len(w) // 2])] for name, w in weights.items()},
    }


def apart(one: Trajectory, other: Trajectory) -> float:
    """The largest difference of two numbers, as a share of the larger where that is above 1."""
    assert one["pair_id"] == other["pair_id"]
    differences = []
    for part in ("pairs", "steps", "weights"):
        assert one[part].keys() == other[part].keys()
        for key in one[part]:
            mine, theirs = (torch.tensor(found[part][key], dtype=torch.float64) for found in (one, other))
            scale = torch.maximum(mine.abs(), theirs.abs()).clamp(min=1)
            differences.append(float(((mine - theirs).abs() / scale).max()))
    return max(differences)


def poisoned(folder: Path, step: int, how: Configuration) -> Trajectory:
    """Two processes, and at that step a pair of the second one is not finite: what this process says of it."""
    run = lab_trainer(folder, "gapo", how)
    guilty = json.loads(RECORDED.read_text())["gapo"]["pair_id"][8 * (step - 1) + 5]
    with pytest.MonkeyPatch.context() as patch:
        broken = {"gradient": lambda flowing: flowing * float("nan")} if how.single else {"logps": (float("nan"), -1.0)}
        poison_pairs(patch, run, step, [guilty], **broken)
        with pytest.raises(TrainingStopped) as caught:
            run.train()
    return {"step": caught.value.step, "pairs": caught.value.pairs, "guilty": guilty}


def main(out: Path | None) -> None:
    torch.set_num_threads(1)
    if out is None:
        with tempfile.TemporaryDirectory() as folder:
            recorded = {objective: followed(Path(folder, objective), "plain", objective) for objective in ALL}
        RECORDED.write_text(json.dumps(recorded, indent=1) + "\n")
        return
    for name, objective in CASES:
        if CONFIGURATIONS[name].processes > 1:
            found = followed(out / name / objective, name, objective)
            if found is not None:
                (out / name / f"{objective}.json").write_text(json.dumps(found))
    own = {"precision": "mixed", "anchor_direction": "rank"}  # at step 1 an audit waits for all processes
    said = [
        poisoned(out / "logps", 2, CONFIGURATIONS["two processes"]),
        poisoned(out / "gradient", 1, Configuration("poison", {**cut(4, 1), **own}, single=True)),
    ]
    (out / f"said-{torch.distributed.get_rank()}.json").write_text(json.dumps(said))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
