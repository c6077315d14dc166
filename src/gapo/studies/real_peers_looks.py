"""The same run by TRL's trainers: same pairs, same settings, and our own evaluation of both models."""

from __future__ import annotations

import os
import tempfile
import time
from typing import TYPE_CHECKING, Any

from gapo.studies.rows import Rows
from gapo.studies.store import StoredRun, takes

if TYPE_CHECKING:
    from gapo.model.load import Policy
    from gapo.studies.probes import Probed

TEST_PAIRS = 200
MICRO_BATCH = 4  # of TRL's: what it holds of a step at once changes nothing but memory
DPO = "dpo"


@takes(12)
def trained_by_either(run: StoredRun) -> Rows:
    """Accuracy and training seconds of our run; of a cell that is not trained those of TRL's, trained here."""
    from gapo.studies.held_out import model_of, start_of
    from gapo.studies.probes import probed

    data = probed(run)
    if run.evals:
        policy, seconds, losses = model_of(run), run.evals["seconds"], [step["loss"] for step in run.steps]
    else:
        policy = start_of(run)
        seconds, losses = _trained(run, policy, data)
    accuracy = _accuracy(run, policy, data)
    return [{"accuracy": accuracy, "seconds": seconds, "first_loss": losses[0], "last_loss": losses[-1]}]


def _accuracy(run: StoredRun, policy: Policy, data: Probed) -> float:
    """Of the objective's own reward, on held-out pairs."""
    from gapo.model.reference import logps_of, reference_logps
    from gapo.objectives import get_objective
    from gapo.training.metrics import accuracy

    pairs, reward = data.held_out[:TEST_PAIRS], get_objective(run.recipe["objective"]["name"]).reward
    start = reference_logps(data.start.eval(), pairs, data.pad_id) if reward.relative else None
    return accuracy(reward.gain(logps_of(policy.model.eval(), pairs, data.pad_id), start))


def _trained(run: StoredRun, policy: Policy, data: Probed) -> tuple[float, list[float]]:
    """Train with TRL, everything as in the recipe; seconds, and the loss of every step."""
    import datasets

    from gapo.pairs.encode import text_rows

    datasets.disable_progress_bars()
    rows = datasets.Dataset.from_list(text_rows(policy.tokenizer, data.pairs))
    with tempfile.TemporaryDirectory() as folder:
        trainer = _trainer(run, policy, data, rows, folder)
        began = time.monotonic()
        trainer.train()
        seconds = time.monotonic() - began
    return seconds, [line["loss"] for line in trainer.state.log_history if "loss" in line]


def _trainer(run: StoredRun, policy: Policy, data: Probed, rows: Any, folder: str) -> Any:
    from gapo.objectives import get_objective

    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    from trl import DPOConfig, DPOTrainer
    from trl.experimental.cpo import CPOConfig, CPOTrainer

    knobs = {key: value for key, value in run.recipe["objective"].items() if key != "name"}
    name, turned = run.recipe["objective"]["name"], get_objective(run.recipe["objective"]["name"], **knobs).settings
    shared = {"model": policy.model, "train_dataset": rows, "processing_class": policy.tokenizer}
    arguments = _arguments(run, folder)
    if name == DPO:
        reference = data.start.requires_grad_(False)
        return DPOTrainer(ref_model=reference, args=DPOConfig(**arguments, beta=turned["beta"]), **shared)  # type: ignore[arg-type]
    losses = {"loss_type": "simpo", "cpo_alpha": 0.0, "beta": turned["beta"], "simpo_gamma": turned["gamma"]}
    return CPOTrainer(args=CPOConfig(**arguments, **losses), **shared)  # type: ignore[arg-type]


def _arguments(run: StoredRun, folder: str) -> dict[str, Any]:
    train = run.recipe["train"]
    step = train["per_device_train_batch_size"] * train["gradient_accumulation_steps"]
    same = ("learning_rate", "lr_scheduler_type", "warmup_steps", "max_steps", "seed")
    return {
        **{key: train[key] for key in same},
        "output_dir": folder,
        "per_device_train_batch_size": MICRO_BATCH,
        "gradient_accumulation_steps": max(1, step // MICRO_BATCH),
        "max_length": run.recipe["data"]["max_length"],
        "bf16": False,
        "gradient_checkpointing": False,
        "use_cpu": True,
        "report_to": "none",
        "disable_tqdm": True,
        "logging_steps": 1,
        "save_strategy": "no",
    }
