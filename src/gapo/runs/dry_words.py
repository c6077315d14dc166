"""A dry run in words: one labelled line for each thing that was checked or estimated."""

from __future__ import annotations

from gapo.runs.cost import COUNTS
from gapo.runs.dry_run import DryRun
from gapo.runs.machines import CPU, SHARE_BF16, SHARE_FP32, SHARE_LINK

Line = tuple[str, str]


def described(dry: DryRun) -> list[Line]:
    """What a person wants to know before a run, as (label, words)."""
    lines = [
        ("model", _model(dry)),
        ("data", f"{dry.train.name}: {dry.train.pairs:,} pairs ({dry.train.source})"),
        ("", _lengths(dry)),
        ("evaluation", _evaluation(dry)),
        ("hardware", _hardware(dry)),
        ("batch", _batch(dry)),
        *([("anchor", _anchor(dry))] if dry.engine is not None else []),
        ("schedule", _schedule(dry)),
        ("arithmetic", _arithmetic(dry)),
        *([("traffic", _traffic(dry))] if dry.batches.processes > 1 else []),
        ("memory", _memory(dry)),
    ]
    if not dry.fits:
        lines.append(("advice", advice(dry)))
    lines += [("time", _time(dry)), ("assumed", _assumed(dry)), ("not seen", _not_seen(dry))]
    return lines


def _model(dry: DryRun) -> str:
    sizes = dry.sizes
    trained = "all trained" if sizes.trained == sizes.parameters else f"{sizes.trained:,} trained (LoRA)"
    return f"{dry.model}: {sizes.parameters:,} parameters, {trained} (from {dry.model_source})"


def _lengths(dry: DryRun) -> str:
    mean = dry.mean
    rows = "one row a pair, if the check at the start agrees" if dry.shared else "two rows a pair"
    return f"a pair has {mean.prompt} + {mean.chosen} + {mean.rejected} tokens on average; {rows}"


def _evaluation(dry: DryRun) -> str:
    if dry.evaluation is None:
        return "no pairs are held out: accuracy is on training pairs"
    return f"{dry.evaluation.name}: {dry.evaluation.pairs:,} pairs ({dry.evaluation.source.split(';')[0]})"


def _hardware(dry: DryRun) -> str:
    about = dry.about
    if about.gpu == CPU:
        return "this computer"
    nodes = f" on {about.nodes} nodes" if about.nodes > 1 else ""
    spread = {"none": "not sharded", "ddp": "DDP, a whole copy on each", "fsdp2": "FSDP2, full shards"}[about.sharding]
    return f"{about.gpus} x {dry.machine.name}{nodes}; {spread}"


def _batch(dry: DryRun) -> str:
    b = dry.batches
    processes = "1 process" if b.processes == 1 else f"{b.processes} processes"
    pairs = "1 pair" if b.per_device == 1 else f"{b.per_device} pairs"
    return f"{processes} x {pairs} x {b.accumulation} accumulated = {b.step_pairs} pairs a step"


def _anchor(dry: DryRun) -> str:
    b, asked = dry.batches, dry.args.anchor_batches
    k = f"K {asked}" if asked == b.anchor_batches else f"K {asked}, but a step has {b.anchor_batches}"
    anchors = "1 anchor" if b.anchors == 1 else f"{b.anchors} anchors"
    return f"{k}: {b.anchor_pairs} pairs share an anchor, {anchors} a step; engine {dry.engine} ({dry.engine_reason})"


def _schedule(dry: DryRun) -> str:
    b, args = dry.batches, dry.args
    kind = getattr(args.lr_scheduler_type, "value", args.lr_scheduler_type)
    epochs = f"{args.num_train_epochs:g} epoch{'' if args.num_train_epochs == 1 else 's'}"
    length = epochs if args.max_steps <= 0 else "max_steps"
    return f"{b.steps:,} steps ({length}), {b.warmup} of them warm-up, {kind}, learning rate {args.learning_rate:g}"


def _arithmetic(dry: DryRun) -> str:
    passes = ", ".join(one.what.name for one in dry.step.passes)
    kept = "; blocks are computed again in backward" if dry.args.gradient_checkpointing else ""
    return f"{dry.tokens:,} tokens; a step {_flops(dry.step.flops)} for each process in the passes {passes}{kept}"


def _traffic(dry: DryRun) -> str:
    kinds = ", ".join(f"{kind} {size / 1e9:,.1f} GB" for kind, size in sorted(dry.step.sent.items()))
    return f"a GPU sends in a step: {kinds}"


def _memory(dry: DryRun) -> str:
    largest = ", ".join(f"{name} {size / 1e9:.1f}" for name, size in dry.memory.largest())
    verdict = "fits" if dry.fits else "DOES NOT FIT"
    where = "" if dry.about.gpu == CPU else " a GPU"
    return f"{dry.memory.total / 1e9:.1f} of {dry.machine.memory / 1e9:.0f} GB{where}: {verdict}; mostly {largest}"


def advice(dry: DryRun) -> str:
    """What would make the run fit."""
    ways = []
    if dry.about.gpu != CPU and dry.enough_gpus is not None and dry.enough_gpus > dry.about.gpus:
        ways.append(f"{dry.enough_gpus} GPUs with about.sharding=fsdp2")
    elif dry.about.gpu != CPU and dry.enough_gpus is not None and dry.about.sharding != "fsdp2":
        ways.append("about.sharding=fsdp2")
    elif dry.about.gpu != CPU and dry.enough_gpus is None:
        ways.append(f"GPUs with more memory ({COUNTS[-1]} of these do not suffice)")
    if not dry.args.gradient_checkpointing:
        ways.append("train.gradient_checkpointing=true")
    if dry.engine in ("bank", "first_order"):
        ways.append("anchor.engine=two_pass")
    if dry.sizes.trained == dry.sizes.parameters:
        ways.append("model.lora={r: 16}")
    return "try " + ", or ".join(ways) if ways else "try shorter pairs (data.max_length)"


def _time(dry: DryRun) -> str:
    t = dry.time
    parts = [f"gradients {t.gradients:.2g} s"]
    if t.gap:
        parts.append(f"the gap's forwards in fp32 {t.gap:.2g} s")
    if t.sending:
        parts.append(f"sending {t.sending:.2g} s beside them")
    safe = f" ({_hours(dry.bf16_hours)} if an audit finds the gap the same in bf16)" if dry.bf16_hours else ""
    words = f"about {_hours(dry.hours)}{safe}: {t.seconds:.3g} s a step ({', '.join(parts)})"
    before = dry.reference_hours + dry.judging_hours + dry.evaluation_hours
    other = [*(["the reference"] if dry.reference_hours else []), *(["judging labels"] if dry.judging_hours else [])]
    also = f"{', '.join(other)} and " if other else ""
    return f"{words}, {_hours(before)} for {also}evaluation"


def _assumed(dry: DryRun) -> str:
    if dry.about.gpu == CPU:
        return f"{SHARE_FP32:.0%} of the multiply rate measured here just now, {dry.machine.fp32 / 1e9:.0f} GFLOP/s"
    mixed = dry.args.precision == "mixed"
    shares = [f"{SHARE_BF16:.0%} of the bf16 peak"] if mixed else []
    if not mixed or dry.time.gap:
        shares.append(
            f"{SHARE_FP32:.0%} of the fp32 peak, without TF32, whose 10 bits are coarser than an anchor's move"
        )
    if dry.batches.processes > 1:
        shares.append(f"{SHARE_LINK:.0%} of the links, all sending hidden behind arithmetic")
    return "; ".join(shares)


def _not_seen(dry: DryRun) -> str:
    missing = ["weights"]
    if "model's own tokens" not in dry.train.source:
        missing.append("tokenizer")
    if "not reached" in dry.train.source:
        missing.append("data")
    return ", ".join(missing)


def _flops(value: float) -> str:
    return f"{value / 1e12:,.1f} TFLOP" if value >= 1e11 else f"{value / 1e9:,.1f} GFLOP"


def _hours(hours: float) -> str:
    if hours >= 1:
        return f"{hours:.1f} h"
    return f"{hours * 60:.0f} min" if hours >= 1 / 30 else f"{hours * 3600:.0f} s"
