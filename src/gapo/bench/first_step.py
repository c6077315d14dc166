"""From the start of the interpreter to the end of the first optimiser step, in a process of its own.

`python -m gapo.bench.first_step '{"data": ..., "model": ..., "out": ..., "started": ...}'` prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gapo.bench.memory import peak_bytes
from gapo.errors import InputError

PHASES = ("start", "pairs", "model", "token ids", "first step")
NOISE = 0.2  # labels are flipped, as in the recipes
EVALUATED = 200


def first_step(data: Path, model: Path, out: Path, cache: Path, objective: str = "gapo") -> dict[str, Any]:
    """Seconds of each phase, peak memory in bytes and CPU seconds of a run's first step."""
    asked = {
        "data": str(data),
        "model": str(model),
        "out": str(out),
        "objective": objective,
        "started": time.monotonic(),
    }
    done = subprocess.run(
        [sys.executable, "-m", "gapo.bench.first_step", json.dumps(asked)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "GAPO_CACHE": str(cache)},
    )
    try:
        report: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise InputError(f"the first step could not be measured ({reason})") from None
    return report


class Phases:
    """Seconds from one mark to the next, and the memory held at each."""

    def __init__(self, started: float) -> None:
        self._last = started
        self.seconds: dict[str, float] = {}
        self.peak: dict[str, int] = {}

    def end(self, name: str) -> None:
        now = time.monotonic()  # the system's, the same in every process
        self.seconds[name], self._last = now - self._last, now
        self.peak[name] = peak_bytes()


def main(arguments: Sequence[str]) -> None:
    asked = json.loads(arguments[0])
    phases = Phases(asked["started"])
    import transformers

    from gapo.model.load import load_policy
    from gapo.runs.data import load_data
    from gapo.runs.recipe import policy_arguments, preference_arguments, resolved
    from gapo.training.config import PreferenceConfig
    from gapo.training.trainer import PreferenceTrainer

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    phases.end("start")
    recipe = resolved(
        {
            "model": {"name": asked["model"]},
            "data": {"train": asked["data"], "eval_limit": EVALUATED},
            "noise": {"rate": NOISE},
            "objective": {"name": asked["objective"]},
            "train": {"output_dir": asked["out"], "max_steps": 1, "per_device_train_batch_size": 32, "use_cpu": True},
        }
    )
    train, evaluation = load_data(recipe)
    phases.end("pairs")
    policy = load_policy(**policy_arguments(recipe), say=lambda _: None)
    phases.end("model")
    config = PreferenceConfig(**preference_arguments(recipe), disable_tqdm=True, save_strategy="no")
    trainer = PreferenceTrainer(policy.model, config, train, evaluation, policy.tokenizer)
    phases.end("token ids")
    trainer.train()
    phases.end("first step")
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    report = {
        "pairs": len(trainer.train_dataset),
        "seconds": sum(phases.seconds.values()),
        "cpu_seconds": sum(one.ru_utime + one.ru_stime for one in usage),
        "peak_bytes": phases.peak["first step"],
        "libraries_bytes": phases.peak["start"],
        "worker_peak_bytes": usage[1].ru_maxrss * 1024,
        "phases": {name: round(seconds, 4) for name, seconds in phases.seconds.items()},
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main(sys.argv[1:])
