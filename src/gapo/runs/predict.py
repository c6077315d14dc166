"""What one optimiser step costs a process, before it is run: FLOPs of each pass, and bytes of each collective.

Counted are matrix products: linear layers, attention, and the head on response tokens; norms, softmaxes and the
optimiser are left out, and so are messages of a few numbers (norms, pair counts, losses).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gapo.errors import InputError, did_you_mean
from gapo.model.head import CHUNK_ENTRIES
from gapo.model.passes import BATCH_TOKENS_ELSEWHERE
from gapo.objectives import Objective, get_objective
from gapo.pairs.collate import length_groups
from gapo.runs.about import SHARDINGS
from gapo.runs.lengths import Lengths
from gapo.runs.pass_plan import Pass, passes_of
from gapo.runs.sizes import Sizes

FP32 = 4  # bytes

Chunk = Sequence[Lengths]


@dataclass(frozen=True)
class Cut:
    """How a process runs its pairs: its micro-batches, rows, chunks, kernels, precision."""

    micro_batches: Sequence[Sequence[Lengths]]
    group: int = 8  # K: micro-batches that share an anchor
    shared: bool = True
    tokens: int = BATCH_TOKENS_ELSEWHERE  # padded tokens in one forward
    square: bool = False  # attention scores are computed in full, also where the mask hides them
    checkpointing: bool = False
    sync_each: bool = False  # gradients are summed over processes after every chunk (FSDP2 saves memory with it)

    @property
    def groups(self) -> int:
        return -(-len(self.micro_batches) // self.group)

    def chunks(self, how: str) -> Iterator[Chunk]:
        """What one forward sees, for each way to cut a step."""
        if how == "pair":
            yield from ([pair] for batch in self.micro_batches for pair in batch)
            return
        joined = {"step": len(self.micro_batches), "group": self.group, "micro": 1}[how]
        for first in range(0, len(self.micro_batches), joined):
            pairs = [pair for batch in self.micro_batches[first : first + joined] for pair in batch]
            widths = [max(pair.rows(self.shared)) for pair in pairs]
            for places in length_groups(widths, 1 if self.shared else 2, self.tokens):
                yield [pairs[i] for i in places]


@dataclass(frozen=True)
class Flops:
    """Multiplications and additions, by where they are made."""

    linear: int = 0
    head: int = 0
    attention: int = 0

    @property
    def total(self) -> int:
        return self.linear + self.head + self.attention

    def __add__(self, other: Flops) -> Flops:
        return Flops(self.linear + other.linear, self.head + other.head, self.attention + other.attention)


@dataclass(frozen=True)
class PredictedPass:
    """One pass of a step: its FLOPs, the chunks it takes, and the bytes handed to each kind of collective."""

    what: Pass
    flops: Flops
    chunks: int
    traffic: Counter[str]


@dataclass(frozen=True)
class PredictedStep:
    """All passes of one optimiser step of one process among `processes`."""

    passes: tuple[PredictedPass, ...]
    processes: int

    @property
    def flops(self) -> int:
        return sum(one.flops.total for one in self.passes)

    @property
    def exact_flops(self) -> int:
        """Of them, in fp32 even in a run of mixed precision."""
        return sum(one.flops.total for one in self.passes if one.what.exact)

    @property
    def traffic(self) -> Counter[str]:
        """Bytes of the whole tensors (before sharding, after gathering) that a process takes part in, by collective."""
        return sum((one.traffic for one in self.passes), Counter[str]())

    @property
    def sent(self) -> Counter[str]:
        """Bytes that leave a process in a ring: (n-1)/n of a tensor to gather or to scatter it, twice that for both."""
        share = (self.processes - 1) / self.processes
        twice = {"all_reduce": 2}
        return Counter({kind: round(twice.get(kind, 1) * share * size) for kind, size in self.traffic.items()})


def predicted_step(
    sizes: Sizes,
    cut: Cut,
    *,
    objective: Objective | str = "gapo",
    engine: str = "two_pass",
    strategy: str = "batch",
    sharding: str = "none",
    processes: int = 1,
    mixed: bool = False,
    sam: bool = False,
    entry_bytes: int = FP32,
) -> PredictedStep:
    """FLOPs and bytes of one step of one process.

    FSDP2 as accelerate sets it up: every block and the embedding are gathered for forward and again for backward, the
    tail (final norm and head) once for both. `entry_bytes` of what is sent: fp32, because a cast on the way would round
    an anchor's move.
    """
    objective = get_objective(objective) if isinstance(objective, str) else objective
    if sharding not in SHARDINGS:
        raise InputError(f"unknown sharding {sharding!r}; {did_you_mean(sharding, SHARDINGS)}")
    if sharding == "fsdp2" and objective.anchored and engine != "two_pass" and sizes.trained == sizes.parameters:
        raise InputError(f"anchor.engine {engine} keeps gradients of pairs apart, which FSDP2 sums; use two_pass")
    plan = passes_of(objective, engine, strategy=strategy, mixed=mixed, sam=sam)
    found = []
    for place, one in enumerate(plan):
        chunks = list(cut.chunks(one.cut))
        flops = sum((chunk_flops(sizes, chunk, cut, gradient=one.gradient) for chunk in chunks), Flops())
        entries = _traffic(sizes, one, len(chunks), cut, sharding, processes) if processes > 1 else Counter[str]()
        if processes > 1 and sharding == "fsdp2":
            entries["all_gather"] += _turns(plan, place, cut) * _tail(sizes, processes)
        traffic = Counter({kind: count * entry_bytes for kind, count in entries.items()})
        found.append(PredictedPass(one, flops, len(chunks), traffic))
    return PredictedStep(tuple(found), processes)


def chunk_flops(sizes: Sizes, chunk: Chunk, cut: Cut, *, gradient: bool) -> Flops:
    """Forward of one chunk, and its backward.

    2 for each weight and token, 4 for each query, key and entry of a head; backward twice that where the weight is
    trained, once for a frozen one. Checkpointing runs blocks again; the head makes its logits again beyond a chunk.
    With adapters this is a little too much: the first block's inputs need no gradient.
    """
    rows = [width for pair in chunk for width in pair.rows(cut.shared)]
    tokens = len(rows) * max(rows)
    responses = sum(pair.responses for pair in chunk)
    if cut.square or sizes.eager:
        seen = len(rows) * max(rows) ** 2
    else:
        seen = sum(pair.seen if cut.shared else sum(w * (w + 1) // 2 for w in pair.rows(False)) for pair in chunk)
    forward = Flops(2 * sizes.linear * tokens, 2 * sizes.head * responses, 4 * sizes.attention_width * seen)
    forward = Flops(forward.linear, forward.head, forward.attention * sizes.layers)
    if not gradient:
        return forward
    backward = Flops(
        2 * (sizes.linear + sizes.linear_trained) * tokens,
        forward.head * (1 + sizes.head_trained),
        2 * forward.attention,
    )
    if responses > max(1, CHUNK_ENTRIES // sizes.vocabulary):
        backward += Flops(head=forward.head)
    if cut.checkpointing:
        backward += Flops(linear=2 * sizes.linear_again * tokens, attention=forward.attention)
    return forward + backward


def _turns(plan: Sequence[Pass], place: int, cut: Cut) -> int:
    """How often a backward follows this pass without gradient: each time FSDP2 fetches the tail ahead, for nothing.

    It fetches in the order of the forwards since the last backward, and those without gradient are among them.
    """
    after = plan[place + 1 : place + 2]
    if plan[place].gradient or not (after and after[0].gradient):
        return 0
    before = [one for one in plan[:place] if one.gradient]
    return cut.groups if before and before[-1].cut == "group" else 1


def _tail(sizes: Sizes, processes: int) -> int:
    """Entries of the final norm and the head, gathered."""
    return sum(unit.gathered(processes) for unit in sizes.of_kind("tail"))


def _traffic(sizes: Sizes, one: Pass, chunks: int, cut: Cut, sharding: str, processes: int) -> Counter[str]:
    """Entries handed to collectives during one pass."""
    syncs = sum({"group": cut.groups, "step": 1}[each] for each in one.syncs)
    if sharding != "fsdp2":
        return +Counter(all_reduce=syncs * sizes.trained)
    gathered: Counter[str] = Counter()
    for unit in sizes.units:
        gathered[unit.kind] += unit.gathered(processes)
    again = gathered["block"] + gathered["embedding"] if one.gradient else 0
    reduced = sum(unit.reduced(processes) for unit in sizes.units)
    return +Counter(
        all_gather=chunks * (gathered.total() + again),
        reduce_scatter=(chunks if cut.sync_each and syncs else syncs) * reduced,
    )
