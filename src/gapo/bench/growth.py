"""How the time of a step grows: with the responses, the prompt, the pairs of a step, and the model.

Random tokens and random Llamas: the arithmetic does not know. Prompt and response axes run on a small Llama, the pairs
axis on one of the lab model's shape, and the model axis goes from that to SmolLM2-135M's.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from gapo.bench.arithmetic import Growth, fitted_growth, order
from gapo.bench.records import Lines
from gapo.bench.setting import Setting, Workload
from gapo.bench.stepping import Stepper
from gapo.bench.variants import AUTO, all_variants
from gapo.pairs.encode import EncodedPair
from gapo.training.dataset import EncodedPairs

RESPONSE, PROMPT, PAIRS, MODEL = "response tokens", "prompt tokens", "pairs per step", "parameters"
AXES = (RESPONSE, PROMPT, PAIRS, MODEL)
REPETITIONS = 3


@dataclass(frozen=True)
class Llama:
    """The shape of a random Llama."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    inner: int
    vocabulary: int

    def build(self) -> Any:
        from transformers import LlamaConfig, LlamaForCausalLM

        config = LlamaConfig(
            hidden_size=self.hidden,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.kv_heads,
            intermediate_size=self.inner,
            vocab_size=self.vocabulary,
            max_position_embeddings=4096,
            tie_word_embeddings=True,
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return LlamaForCausalLM(config)


LAB, SMALL = Llama(112, 3, 4, 4, 320, 132), Llama(192, 6, 3, 3, 512, 2048)
SIZES = (
    LAB,
    SMALL,
    Llama(320, 10, 5, 5, 864, 8192),
    Llama(448, 20, 7, 7, 1200, 24576),
    Llama(576, 30, 9, 3, 1536, 49152),  # SmolLM2-135M
)


@dataclass(frozen=True)
class Point:
    """One step to be timed; `axis` says which of its numbers is the one that grows."""

    axis: str
    llama: Llama
    prompt: int = 32
    response: int = 32
    pairs: int = 4
    micro_batch: int = 4

    def at(self, parameters: int) -> int:
        return {RESPONSE: self.response, PROMPT: self.prompt, PAIRS: self.pairs, MODEL: parameters}[self.axis]


def points(quick: bool = False) -> list[Point]:
    """All axes; about three minutes on two free cores, seconds when `quick`."""
    lengths = (32, 64, 128) if quick else (32, 64, 128, 256, 512, 1024)
    steps = (8, 16) if quick else (8, 16, 32, 64)
    return [
        *(Point(RESPONSE, LAB if quick else SMALL, response=length) for length in lengths),
        *(Point(PROMPT, LAB if quick else SMALL, prompt=length) for length in lengths),
        *(Point(PAIRS, LAB, pairs=count) for count in steps),
        *(Point(MODEL, llama, pairs=2, micro_batch=2) for llama in (SIZES[:2] if quick else SIZES)),
    ]


def random_pairs(point: Point) -> EncodedPairs:
    """Pairs of exactly these lengths."""
    draw = random.Random(0)

    def ids(count: int) -> list[int]:
        return [draw.randrange(3, point.llama.vocabulary) for _ in range(count)]

    def pair(at: int) -> EncodedPair:
        return EncodedPair(f"pair-{at}", ids(point.prompt), ids(point.response), ids(point.response))

    return EncodedPairs([pair(at) for at in range(point.pairs)])


def measure_growth(lines: Lines, say: Callable[[str], None], *, precision: str, quick: bool) -> None:
    """SimPO and GAPO at every point, in alternating order; each measurement is written as it ends."""
    for point in points(quick):
        with ExitStack() as stack:
            parameters, steppers = _set_up(point, precision, stack)
            x, seconds = point.at(parameters), dict[str, list[float]]()
            for repetition in range(1 if quick else REPETITIONS):
                for name in order(list(steppers), repetition):
                    start = time.perf_counter()
                    steppers[name].step()
                    took = (time.perf_counter() - start) / point.pairs
                    seconds.setdefault(name, []).append(took)
                    lines.add(
                        axis=point.axis,
                        x=x,
                        variant=name,
                        parameters=parameters,
                        repetition=repetition,
                        seconds_per_pair=took,
                    )
        told = "  ".join(f"{name} {median(took):.4f} s" for name, took in seconds.items())
        say(f"growth      {point.axis} {x:,}: {told} a pair")


def _set_up(point: Point, precision: str, stack: ExitStack) -> tuple[int, dict[str, Stepper]]:
    from gapo.model.load import load_policy

    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gapo-bench-")))
    model = point.llama.build()
    work = Workload(model, load_policy("lab").tokenizer, random_pairs(point), "random")
    setting = Setting("random", None, point.pairs, point.micro_batch, precision)
    known, steppers = all_variants(), dict[str, Stepper]()
    optimizer: Any = None
    for name in ("simpo", f"gapo-{AUTO}"):
        trainer = known[name].build(work, setting, folder / name, optimizer)
        steppers[name] = Stepper(trainer)
        optimizer = optimizer or trainer.optimizer.optimizer
        steppers[name].step(1)
    return model.num_parameters(), steppers


@dataclass(frozen=True)
class Curve:
    """Median seconds per pair of one variant along one axis, and the fitted growth."""

    axis: str
    variant: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    growth: Growth | None
    parameters: int  # of the largest model along it


def curves(measured: list[dict[str, Any]]) -> list[Curve]:
    """The lines of the file as curves; growth is fitted from two points on."""
    return list(_curves(measured))


def _curves(measured: list[dict[str, Any]]) -> Iterator[Curve]:
    for axis in AXES:
        for variant in dict.fromkeys(line["variant"] for line in measured):
            own = [line for line in measured if (line["axis"], line["variant"]) == (axis, variant)]
            x = tuple(sorted({float(line["x"]) for line in own}))
            y = tuple(median(line["seconds_per_pair"] for line in own if line["x"] == at) for at in x)
            if x:
                yield Curve(
                    axis,
                    variant,
                    x,
                    y,
                    fitted_growth(x, y) if len(x) > 1 else None,
                    max(line["parameters"] for line in own),
                )
