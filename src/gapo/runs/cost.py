"""Memory of one GPU and seconds of one step, as far as they can be told without running."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gapo.model.head import CHUNK_ENTRIES
from gapo.runs.machines import ROOM, Machine
from gapo.runs.predict import FP32, PredictedStep
from gapo.runs.sizes import Sizes

GIB = 2**30
LOGIT_COPIES = 3  # logits, their probabilities, and what backward makes of them
SCORE_COPIES = 3  # eager attention: scores, capped scores, probabilities
COUNTS = (1, 2, 4, 8, 16, 32, 64, 128)


@dataclass(frozen=True)
class Holding:
    """What a process keeps: how it is sharded, which engine, how many pairs and tokens at once."""

    sharding: str
    processes: int
    engine: str | None  # None: the objective has no anchor
    pairs: int  # of one step, in one process
    bank_bytes: int  # of an entry in a bank
    tokens: int  # in one forward, at most
    width: int  # of its longest row
    checkpointing: bool
    sync_each: bool
    accumulation: int


@dataclass(frozen=True)
class Memory:
    """Bytes by what they hold."""

    terms: Mapping[str, float]

    @property
    def total(self) -> float:
        return sum(self.terms.values())

    def fits(self, machine: Machine) -> bool:
        return self.total <= ROOM * machine.memory

    def largest(self, count: int = 3) -> list[tuple[str, float]]:
        return sorted(self.terms.items(), key=lambda term: -term[1])[:count]


def memory(sizes: Sizes, holding: Holding) -> Memory:
    """Weights, gradients and moments in fp32, whole or in shards; the anchor; what backward needs of one chunk."""
    sharded = holding.sharding == "fsdp2"
    parts = holding.processes if sharded else 1
    trained = sizes.trained * FP32
    terms = {
        "weights": sizes.parameters * FP32 / parts,
        "gradients": trained / parts,
        "Adam's moments": 2 * trained / parts,
    }
    if holding.engine == "two_pass":
        terms["anchor (weights displaced)"] = trained / parts
    elif holding.engine in ("bank", "first_order"):
        terms["bank of pair gradients"] = sizes.trained * holding.bank_bytes * holding.pairs
        terms["direction"] = trained
    elif holding.engine == "streaming":
        terms["sum of weighted gradients"] = trained
    if holding.sharding == "ddp" and holding.processes > 1:
        terms["buckets of DDP"] = trained
    if sharded and holding.processes > 1:
        blocks = [unit.gathered() for unit in sizes.of_kind("block")]
        others = sum(unit.gathered() for unit in sizes.units) - sum(blocks)
        # one block at work, the next on its way, and a gradient of each before it is scattered
        terms["gathered weights"] = (4 * max(blocks) + 2 * others) * FP32
        if holding.accumulation > 1 and not holding.sync_each:
            terms["whole gradients between micro-batches"] = trained
    terms["activations"] = activations(sizes, holding)
    terms["logits of a chunk"] = LOGIT_COPIES * max(CHUNK_ENTRIES, sizes.vocabulary) * FP32
    return Memory(terms)


def activations(sizes: Sizes, holding: Holding) -> float:
    """Of one chunk: all blocks, or with checkpointing their inputs and one block with its gradients."""
    block = holding.tokens * block_entries(sizes, holding.width) * FP32
    if not holding.checkpointing:
        return sizes.layers * block
    return sizes.layers * holding.tokens * sizes.hidden * FP32 + 2 * block


def block_entries(sizes: Sizes, width: int) -> int:
    """Numbers that a block keeps for backward, for one token: norms and residuals, attention, the feed-forward part."""
    scores = SCORE_COPIES * sizes.heads * width if sizes.eager else 0
    return 8 * sizes.hidden + 5 * sizes.attention_width + 4 * sizes.inner + scores


def gpus_needed(sizes: Sizes, holding: Holding, machine: Machine) -> int | None:
    """The fewest GPUs (a power of two) on which shards fit; None if even the most do not help."""
    for count in COUNTS:
        if memory(sizes, replace(holding, sharding="fsdp2", processes=count)).fits(machine):
            return count
    return None


@dataclass(frozen=True)
class StepTime:
    """Seconds of one step: arithmetic in the precision of gradients, in fp32 for the gap, and sending."""

    gradients: float
    gap: float
    sending: float

    @property
    def seconds(self) -> float:
        """Sending is taken to run beside the arithmetic: the longer of the two counts."""
        return max(self.gradients + self.gap, self.sending)


def step_time(
    step: PredictedStep, machine: Machine, *, mixed: bool, gap_in_bf16: bool = False, nodes: int = 1
) -> StepTime:
    """By the assumed shares of the machine's peak. `gap_in_bf16`: an audit has found that precision as good."""
    rest = step.flops - step.exact_flops
    return StepTime(
        machine.seconds(rest, bf16=mixed),
        machine.seconds(step.exact_flops, bf16=gap_in_bf16),
        machine.sending(step.sent.total(), nodes) if step.processes > 1 else 0.0,
    )
