"""A tiny trainer for integration tests: 61 words, two layers, text pairs, float64 so that equal means equal."""

from __future__ import annotations

import random

import torch
from transformers import TrainerCallback

import gapo
import tiny


def text_rows(n: int = 16, seed: int = 0) -> list[dict[str, str]]:
    rng = random.Random(seed)

    def words(low: int, high: int) -> str:
        return " ".join(rng.choice(tiny.WORDS[4:]) for _ in range(rng.randint(low, high)))

    return [
        {"prompt": f"{words(2, 5)} {i % 7}", "chosen": words(2, 7), "rejected": words(2, 7) + " not"} for i in range(n)
    ]


def trainer(folder, rows=None, *, model=None, eval_rows=None, dtype=torch.float64, tokenizer=None, **options):
    """A PreferenceTrainer on CPU; keyword arguments go to PreferenceConfig, `extra_*` ones to the trainer."""
    extra = {key.removeprefix("extra_"): options.pop(key) for key in list(options) if key.startswith("extra_")}
    defaults = {
        "output_dir": str(folder),
        "objective": "gapo",
        "per_device_train_batch_size": 4,
        "per_device_eval_batch_size": 4,
        "learning_rate": 1e-3,
        "max_steps": 3,
        "save_strategy": "no",
        "use_cpu": True,
        "disable_tqdm": True,
        "cache_reference": False,
        "reply_prompts": 0,
        "drift_pairs": 2,
        "max_grad_norm": 0.0,
        "seed": 0,
    }
    config = gapo.PreferenceConfig(**{**defaults, **options})
    return gapo.PreferenceTrainer(
        model if model is not None else tiny.llama(dtype=dtype),
        config,
        rows if rows is not None else text_rows(),
        eval_rows,
        tokenizer if tokenizer is not None else tiny.tiny_tokenizer(),
        **extra,
    )


class StopAfter(TrainerCallback):
    """Ends a run after so many steps, with a schedule made for more."""

    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **_):
        control.should_training_stop = state.global_step >= self.step


def weights(trained) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in trained.model.parameters()])
