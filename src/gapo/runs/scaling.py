"""The tables of docs/distributed.md, computed: `python -m gapo.runs.scaling docs/distributed.md` writes them anew."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gapo.runs.architectures import ARCHITECTURES, weightless
from gapo.runs.cost import Holding, Memory, StepTime, memory, step_time
from gapo.runs.known_pairs import ASSUMED
from gapo.runs.machines import GPUS, Machine
from gapo.runs.predict import Cut, PredictedStep, predicted_step
from gapo.runs.sizes import Sizes
from gapo.storage import whole_file

GLOBAL_BATCH = 128
ANCHOR_PAIRS = 64
MAX_LENGTH = 2048
PAIRS = 59_720  # of Mistral's set
MODELS = {"mistral-7b": "Mistral 7B", "gemma2-9b": "Gemma 2 9B"}
COUNTS = (2, 8, 64)
GPU = "h100-80gb"
LORA = {"r": 16, "target_modules": "all-linear"}


@dataclass(frozen=True)
class Way:
    """A row of a table: an objective, its engine, how the model is spread."""

    label: str
    objective: str
    engine: str | None
    sharding: str
    lora: bool = False


WAYS = (
    Way("SimPO", "simpo", None, "ddp"),
    Way("GAPO `two_pass`", "gapo", "two_pass", "ddp"),
    Way("GAPO `bank`", "gapo", "bank", "ddp"),
    Way("GAPO `first_order`", "gapo", "first_order", "ddp"),
    Way("GAPO `streaming`", "gapo", "streaming", "ddp"),
    Way("GAPO `bank`, LoRA", "gapo", "bank", "ddp", lora=True),
    Way("SimPO", "simpo", None, "fsdp2"),
    Way("GAPO `two_pass`", "gapo", "two_pass", "fsdp2"),
)


@dataclass(frozen=True)
class Row:
    """What one way costs one GPU of `count`."""

    way: Way
    count: int
    step: PredictedStep
    memory: Memory
    time: StepTime


def row(sizes: Sizes, way: Way, count: int, machine: Machine, *, gap_in_bf16: bool = False) -> Row:
    """One pair a micro-batch, so many micro-batches that a step has 128 pairs and an anchor 64."""
    accumulation = GLOBAL_BATCH // count
    group = ANCHOR_PAIRS // count
    cut = Cut([[ASSUMED]] * accumulation, group=group, checkpointing=True, sync_each=True)
    step = predicted_step(
        sizes,
        cut,
        objective=way.objective,
        engine=way.engine or "two_pass",
        sharding=way.sharding,
        processes=count,
        mixed=not gap_in_bf16,  # else the gap has a twin forward of its own
    )
    width = 2 * MAX_LENGTH - ASSUMED.prompt
    tokens = max(width, min(cut.tokens, width * (group if way.engine == "two_pass" else 1)))
    holding = Holding(
        sharding=way.sharding,
        processes=count,
        engine=way.engine,
        pairs=accumulation,
        bank_bytes=2,
        tokens=tokens,
        width=width,
        checkpointing=True,
        sync_each=True,
        accumulation=accumulation,
    )
    nodes = max(1, count // 8)
    time = step_time(step, machine, mixed=True, gap_in_bf16=gap_in_bf16, nodes=nodes)
    return Row(way, count, step, memory(sizes, holding), time)


def cost_table(name: str) -> str:
    """All ways on all numbers of GPUs for one model."""
    machine = GPUS[GPU]
    config = ARCHITECTURES[name].made()
    whole, adapted = Sizes.of(weightless(config)), Sizes.of(weightless(config, LORA))
    lines = [
        f"{MODELS[name]}, {whole.parameters:,} parameters; LoRA of rank {LORA['r']}: {adapted.trained:,} trained.",
        "",
        "| GPUs | | spread | TFLOP | of them fp32 | all_reduce | all_gather | reduce_scatter | memory | seconds |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for count in COUNTS:
        for way in WAYS:
            lines.append(_cells(row(adapted if way.lora else whole, way, count, machine), machine))
    return "\n".join(lines)


def _cells(one: Row, machine: Machine) -> str:
    sent = one.step.sent
    kinds = [
        f"{sent[kind] / 1e9:,.1f}" if sent[kind] else "-" for kind in ("all_reduce", "all_gather", "reduce_scatter")
    ]
    fits = "" if one.memory.fits(machine) else " (too much)"
    cells = [
        str(one.count),
        one.way.label,
        one.way.sharding,
        f"{one.step.flops / 1e12:,.0f}",
        f"{one.step.exact_flops / 1e12:,.0f}" if one.step.exact_flops else "-",
        *kinds,
        f"{one.memory.total / 1e9:,.0f}{fits}",
        f"{one.time.seconds:.1f}",
    ]
    return f"| {' | '.join(cells)} |"


def paper_table() -> str:
    """The paper's own setting, two B200, beside what it says of its time."""
    machine = GPUS["b200-180gb"]
    sizes = Sizes.of(weightless(ARCHITECTURES["mistral-7b"].made()))
    said = {"SimPO": "about 1.5 h", "GAPO `two_pass`": "about 3 h"}
    lines = ["| Mistral 7B, two B200, FSDP2, one epoch | this model | paper |", "|---|---|---|"]
    for way in (way for way in WAYS if way.sharding == "fsdp2"):
        one = row(sizes, way, 2, machine)
        lines.append(f"| {way.label} | {_epoch(one.time)} | {said[way.label]} |")
    in_bf16 = row(sizes, WAYS[-1], 2, machine, gap_in_bf16=True)
    lines.append(f"| {WAYS[-1].label}, the gap in bf16 | {_epoch(in_bf16.time)} | |")
    return "\n".join(lines)


def _epoch(time: StepTime) -> str:
    return f"{time.seconds * PAIRS / GLOBAL_BATCH / 3600:.1f} h"


TABLES: Mapping[str, Callable[[], str]] = {
    **{name: partial(cost_table, name) for name in MODELS},
    "paper": paper_table,
}


def filled(text: str) -> str:
    """The document with every `<!-- computed: NAME -->` block computed anew."""

    def computed(found: re.Match[str]) -> str:
        return f"{found[1]}\n{TABLES[found[2]]()}\n{found[3]}"

    return re.sub(r"(<!-- computed: ([\w-]+) -->)\n.*?(<!-- end -->)", computed, text, flags=re.DOTALL)


def main(pages: Sequence[str]) -> None:
    for name in pages:
        path = Path(name)
        text = filled(path.read_text(encoding="utf-8"))
        with whole_file(path) as part:
            part.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
