"""A recipe checked without its weights: architecture, data, batch arithmetic, memory, time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gapo.anchor.engines import choose_engine
from gapo.anchor.gap import parameters_in_scope
from gapo.errors import InputError, did_you_mean
from gapo.model.attention import why_not_shared
from gapo.model.load import resolve_model
from gapo.model.passes import BATCH_ENTRIES, BATCH_TOKENS_ELSEWHERE
from gapo.model.policy import backbone_of
from gapo.model.wheel import WHEEL_MODELS
from gapo.objectives import depends_on_margin_alone
from gapo.pairs.encode import Encoder
from gapo.pairs.noise import FLIP_RULES
from gapo.runs.about import About, about_of
from gapo.runs.architectures import architecture_of, config_of, weightless
from gapo.runs.batch_arithmetic import BatchArithmetic, batch_arithmetic
from gapo.runs.cost import Holding, Memory, StepTime, gpus_needed, memory, step_time
from gapo.runs.known_pairs import Found, find_pairs
from gapo.runs.lengths import Lengths
from gapo.runs.machines import CPU, Machine, machine
from gapo.runs.predict import Cut, PredictedStep, chunk_flops, predicted_step
from gapo.runs.recipe import Recipe, runs_of
from gapo.runs.run import TRAINING_PAIRS_SHOWN, config_from
from gapo.runs.sizes import Sizes
from gapo.training.config import PreferenceConfig


@dataclass(frozen=True)
class DryRun:
    """What can be said of one run before it starts."""

    objective: str
    about: About
    machine: Machine
    args: PreferenceConfig
    model: str
    model_source: str
    sizes: Sizes
    train: Found
    evaluation: Found | None
    batches: BatchArithmetic
    engine: str | None
    engine_reason: str
    shared: bool
    step: PredictedStep
    memory: Memory
    enough_gpus: int | None
    time: StepTime
    bf16_time: StepTime | None  # if an audit finds the gap the same in bf16
    forward_seconds: float  # of one pair, without gradient, by one process

    @property
    def mean(self) -> Lengths:
        return self.train.mean

    @property
    def tokens(self) -> int:
        """Of the whole run, each prompt once where rows are shared."""
        return self.batches.steps * self.batches.step_pairs * sum(self.mean.rows(self.shared))

    @property
    def fits(self) -> bool:
        return self.memory.fits(self.machine)

    @property
    def reference_hours(self) -> float:
        """Log-probs of the reference, once, before the first step."""
        if not {"reference", "kl"} & set(self.args.chosen_objective().needs):
            return 0.0
        return self.train.pairs * self.forward_seconds / self.batches.processes / 3600

    @property
    def evaluation_hours(self) -> float:
        """Before and after training."""
        pairs = self.evaluation.pairs if self.evaluation is not None else min(TRAINING_PAIRS_SHOWN, self.train.pairs)
        return 2 * pairs * self.forward_seconds / self.batches.processes / 3600

    @property
    def hours(self) -> float:
        return self._hours(self.time)

    @property
    def bf16_hours(self) -> float | None:
        return self._hours(self.bf16_time) if self.bf16_time is not None else None

    def _hours(self, time: StepTime) -> float:
        return self.batches.steps * time.seconds / 3600 + self.reference_hours + self.evaluation_hours


def dry_runs(recipe: Recipe) -> list[DryRun]:
    """One for each objective the recipe names. Raises the sentence the run would."""
    about = about_of(recipe)
    if (kind := recipe["noise"]["kind"]) not in FLIP_RULES:
        raise InputError(f"unknown noise.kind {kind!r}; {did_you_mean(kind, FLIP_RULES)}")
    on = machine(about.gpu)
    config, source = config_of(recipe["model"]["name"])
    if (kernel := recipe["model"].get("attn_implementation")) or getattr(config, "attn_logit_softcapping", None):
        config._attn_implementation = kernel or "eager"
    model = weightless(config, recipe["model"]["lora"])
    data = recipe["data"]
    encoder = _encoder(recipe)
    strict = bool(data.get("strict"))
    train = find_pairs(data["train"], encoder, data["limit"], strict=strict)
    evaluation = find_pairs(data["eval"], encoder, data["eval_limit"], strict=strict) if data["eval"] else None
    return [_dry_run(one, about, on, source, model, train, evaluation) for one in runs_of(_with_place(recipe))]


def _with_place(recipe: Recipe) -> Recipe:
    train = recipe["train"]
    return {**recipe, "train": {**train, "output_dir": train["output_dir"] or "runs"}}


def _dry_run(
    recipe: Recipe,
    about: About,
    on: Machine,
    source: str,
    model: Any,
    train: Found,
    evaluation: Found | None,
) -> DryRun:
    # what holds for the GPUs named is asked of no device here
    args = config_from({**recipe, "train": {**recipe["train"], "use_cpu": True}})
    objective = args.chosen_objective()
    if objective.anchored:
        parameters_in_scope(model, args.anchor_scope)
    if (fraction := recipe["data"]["eval_fraction"]) and evaluation is None:
        held = round(train.pairs * fraction)
        train, evaluation = _some(train, train.pairs - held), _some(train, held)
    sizes = Sizes.of(model)
    batches = batch_arithmetic(args, train.pairs, about.gpus)
    longest = _longest(model, args)
    mean = _cut(train.mean, longest)
    shared = args.shared_prefix != "off" and why_not_shared(backbone_of(model)) is None
    at_once = BATCH_TOKENS_ELSEWHERE if about.gpu != CPU else max(1, BATCH_ENTRIES["cpu"] // sizes.hidden)
    mixed = args.precision == "mixed"
    sync_each = bool(_accumulation_settings(args).get("sync_each_batch"))
    engine, reason = _engine(args, model, sizes, batches, about, on) if objective.anchored else (None, "")
    cut = Cut(
        [[mean] * batches.per_device] * batches.accumulation,
        group=batches.anchor_batches or batches.accumulation,
        shared=shared,
        tokens=at_once,
        checkpointing=args.gradient_checkpointing,
        sync_each=sync_each,
    )
    step, in_bf16 = (
        predicted_step(
            sizes,
            cut,
            objective=objective,
            engine=engine or "two_pass",
            strategy=args.anchor_strategy,
            sharding=about.sharding,
            processes=about.gpus,
            mixed=gap_apart,
            sam=args.sam_radius > 0,
        )
        for gap_apart in (mixed, False)
    )
    width = _widest(train.mean, longest, shared)
    together = batches.per_device * (batches.anchor_batches or 1) * width * (1 if shared else 2)
    holding = Holding(
        about.sharding,
        about.gpus,
        engine,
        batches.process_pairs,
        2 if args.anchor_bank_dtype == "bf16" or "bf16" in reason else 4,
        max(width, min(at_once, together)),
        width,
        args.gradient_checkpointing,
        sync_each,
        batches.accumulation,
    )
    forward = chunk_flops(sizes, [mean], cut, gradient=False)
    return DryRun(
        objective.name,
        about,
        on,
        args,
        recipe["model"]["name"],
        source,
        sizes,
        train,
        evaluation,
        batches,
        engine,
        reason,
        shared,
        step,
        memory(sizes, holding),
        gpus_needed(sizes, holding, on) if about.gpu != CPU else None,
        step_time(step, on, mixed=mixed, nodes=about.nodes),
        step_time(in_bf16, on, mixed=True, gap_in_bf16=True, nodes=about.nodes) if mixed and step.exact_flops else None,
        on.seconds(forward.total, bf16=mixed),
    )


def _engine(
    args: PreferenceConfig, model: Any, sizes: Sizes, batches: BatchArithmetic, about: About, on: Machine
) -> tuple[str, str]:
    """The engine asked for, or what `auto` would take with the memory that weights and moments leave."""
    if about.sharding == "fsdp2" and sizes.trained == sizes.parameters:
        if args.anchor_engine not in ("auto", "two_pass"):
            raise InputError(
                f"anchor.engine {args.anchor_engine} keeps gradients of pairs apart, which FSDP2 sums; use two_pass"
            )
        return "two_pass", "shards of FSDP2 hold sums over pairs only"
    choice = choose_engine(
        args.anchor(),
        model,
        min(batches.process_pairs, batches.pairs),
        bank_fits_loss=depends_on_margin_alone(args.chosen_objective()),
        displaced_step=args.sam_radius > 0,
        free=int(on.memory - 4 * sizes.parameters),
    )
    kept = " in bf16" if choice.bank_dtype is torch.bfloat16 else ""
    return choice.name, f"{choice.reason}{kept}"


def _accumulation_settings(args: PreferenceConfig) -> Mapping[str, Any]:
    return getattr(args.accelerator_config, "gradient_accumulation_kwargs", None) or {}


def _some(found: Found, pairs: int) -> Found:
    return Found(pairs, found.mean, found.source)


def _longest(model: Any, args: PreferenceConfig) -> int:
    positions = getattr(model.config, "max_position_embeddings", None)
    return min(args.max_length, positions) if positions else args.max_length


def _cut(mean: Lengths, longest: int) -> Lengths:
    """A pair of mean length, responses cut as the encoder cuts them."""
    prompt = min(mean.prompt, longest - 1)
    room = longest - prompt
    return Lengths(prompt, min(mean.chosen, room), min(mean.rejected, room))


def _widest(mean: Lengths, longest: int, shared: bool) -> int:
    """The longest row there can be: a mean prompt with both responses cut at the limit, or one row at the limit."""
    return longest + max(0, longest - mean.prompt) if shared else longest


def _encoder(recipe: Recipe) -> Encoder | None:
    """The model's own way to tokens, where its tokenizer is on this computer; nothing is fetched."""
    name = recipe["model"]["name"]
    if name.lower() in WHEEL_MODELS or architecture_of(name) is not None:
        return None
    source = resolve_model(name)
    if not isinstance(source, Path):
        return None
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(source))
    except Exception as error:  # broken files raise anything
        raise InputError(f"the tokenizer of {name!r} cannot be read ({str(error).splitlines()[0][:150]})") from None
    data = recipe["data"]
    return Encoder(tokenizer, data.get("max_length", 2048), data.get("max_prompt_length"), data.get("template", "auto"))
