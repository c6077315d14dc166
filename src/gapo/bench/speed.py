"""Seconds of a step of every variant, in one process, in alternating order."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from gapo.bench.arithmetic import order
from gapo.bench.records import Lines
from gapo.bench.setting import Setting, Workload
from gapo.bench.stepping import Stepper
from gapo.bench.variants import AUTO, Variant, auto_first, engine_of
from gapo.errors import InputError

Say = Callable[[str], None]
COMPUTE = {"fp32": torch.float32, "mixed": torch.bfloat16}


@dataclass(frozen=True)
class Bench:
    """Every variant, set up and warm."""

    steppers: dict[str, Stepper]
    facts: dict[str, dict[str, Any]]  # by variant: what setting it up told
    dtype: torch.dtype
    guess: dict[str, float]  # seconds of a step, from its warm-up

    def measure(self, repetitions: int, lines: Lines, say: Say, after_each: Callable[[], None]) -> None:
        """Write down every step as it ends; `after_each` repetition the summary may be made anew."""
        from gapo.runs.machines import matmul_peak

        names = list(self.steppers)
        known = {name: [seconds] for name, seconds in self.guess.items()}
        for repetition in range(repetitions):
            for place, name in enumerate(order(names, repetition)):
                with self.steppers[name].memory_at_hand():
                    peak = matmul_peak(self.dtype)
                    start = time.perf_counter()
                    self.steppers[name].step()
                    seconds = time.perf_counter() - start
                found = {"seconds": seconds, "peak_gflops": peak / 1e9, "load": load()}
                lines.add(variant=name, repetition=repetition, place=place, **found)
                for twin in (variant for variant, facts in self.facts.items() if facts.get("same_as") == name):
                    lines.add(variant=twin, repetition=repetition, place=place, same_as=name, **found)
                known[name] = [*known[name][1 if repetition == 0 else 0 :], seconds]
                rest = _remaining(known, names, repetitions, repetition, place)
                say(f"repetition {repetition + 1} of {repetitions}  {name:<18} {seconds:7.2f} s{_in_words(rest)}")
            after_each()


def set_up(variants: Sequence[Variant], work: Workload, setting: Setting, stack: ExitStack, say: Say) -> Bench:
    """Build every trainer on one set of weights and one optimiser, and warm each with a micro-batch."""
    from gapo.bench.theirs import tokens_of

    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gapo-bench-")))
    steppers: dict[str, Stepper] = {}
    facts: dict[str, dict[str, Any]] = {}
    guess: dict[str, float] = {}
    engines: dict[str, str | None] = {}
    optimizer: Any = None
    for variant in auto_first(variants):
        trainer = variant.build(work, setting, folder / variant.name, optimizer)
        if same := [name for name, engine in engines.items() if engine == engine_of(trainer) is not None]:
            facts[variant.name] = {"engine": engine_of(trainer), "same_as": same[0]}
            say(f"the same as {same[0]:<18} {variant.name}: {trainer.engine_choice}")
            continue
        engines[variant.name] = engine_of(trainer)
        stepper = Stepper(trainer)
        optimizer = optimizer or trainer.optimizer.optimizer  # the same AdamW: its moments are memory, not work
        start = time.perf_counter()
        stepper.step(1)
        seconds = (time.perf_counter() - start) * setting.accumulation
        steppers[variant.name], guess[variant.name] = stepper, seconds
        facts[variant.name] = {"row_tokens": tokens_of(trainer)} if not variant.ours else {}
        if variant.name == f"gapo-{AUTO}" or "bf16" in (engines[variant.name] or ""):
            facts[variant.name]["engine"] = engines[variant.name]
        say(f"warm        {variant.name:<18} about {seconds:.1f} s a step")
    return Bench(steppers, facts, COMPUTE[setting.precision], guess)


def check_repetitions(repetitions: int) -> None:
    if repetitions < 1:
        raise InputError(f"repetitions must be at least 1, not {repetitions}")


def load() -> float | None:
    """Processes that want the machine, over the last minute, this one included."""
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


def _remaining(
    known: dict[str, list[float]], names: Sequence[str], repetitions: int, repetition: int, place: int
) -> float:
    """Seconds still to come, by what each variant has taken so far."""
    whole = sum(median(known[name]) for name in names) * (repetitions - repetition - 1)
    return whole + sum(median(known[name]) for name in order(names, repetition)[place + 1 :])


def _in_words(seconds: float) -> str:
    if seconds <= 0:
        return ""
    return f"   about {seconds:.0f} s left" if seconds < 100 else f"   about {seconds / 60:.0f} min left"
