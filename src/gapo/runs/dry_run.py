"""A recipe checked without its weights: architecture, data, batch arithmetic, memory, time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from gapo.anchor.engines import choose_engine
from gapo.anchor.gap import parameters_in_scope
from gapo.errors import InputError, did_you_mean
from gapo.model.attention import why_not_shared
from gapo.model.load import resolve_model
from gapo.model.passes import BATCH_ENTRIES, BATCH_TOKENS_ELSEWHERE
from gapo.model.policy import backbone_of, fitting_length
from gapo.model.wheel import WHEEL_MODELS
from gapo.objectives import depends_on_margin_alone
from gapo.pairs.encode import Encoder
from gapo.pairs.noise import FLIP_RULES
from gapo.pairs.table import one_line
from gapo.runs.about import About, about_of
from gapo.runs.architectures import architecture_of, config_of, weightless
from gapo.runs.batch_arithmetic import BatchArithmetic, batch_arithmetic
from gapo.runs.cost import Holding, Memory, StepTime, gpus_needed, memory, step_time
from gapo.runs.data import TRAINING_PAIRS_SHOWN
from gapo.runs.known_pairs import Found, find_pairs
from gapo.runs.lengths import Lengths
from gapo.runs.machines import CPU, Machine, machine
from gapo.runs.predict import Cut, PredictedStep, chunk_flops, predicted_step
from gapo.runs.recipe import Recipe, runs_of
from gapo.runs.run import config_from
from gapo.runs.sizes import Sizes
from gapo.training.config import PreferenceConfig
from gapo.training.doubts import judging_forwards


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
        compared = bool({"reference", "kl"} & set(self.args.chosen_objective().needs))
        return compared * self.train.pairs * self.forward_seconds / self.batches.processes / 3600

    @property
    def judging_hours(self) -> float:
        """The pass over all pairs that judges their labels, once, before the first step."""
        return judging_forwards(self.args) * self.train.pairs * self.forward_seconds / self.batches.processes / 3600

    @property
    def evaluation_hours(self) -> float:
        pairs = self.evaluation.pairs if self.evaluation is not None else min(TRAINING_PAIRS_SHOWN, self.train.pairs)
        return 2 * pairs * self.forward_seconds / self.batches.processes / 3600

    @property
    def hours(self) -> float:
        return self._hours(self.time)

    @property
    def bf16_hours(self) -> float | None:
        return self._hours(self.bf16_time) if self.bf16_time is not None else None

    def _hours(self, time: StepTime) -> float:
        return (
            self.batches.steps * time.seconds / 3600 + self.reference_hours + self.judging_hours + self.evaluation_hours
        )


def dry_runs(recipe: Recipe) -> list[DryRun]:
    """One for each objective the recipe names. Raises the sentence the run would."""
    about = about_of(recipe)
    if (kind := recipe["noise"]["kind"]) not in FLIP_RULES:
        raise InputError(f"unknown noise.kind {kind!r}; {did_you_mean(kind, FLIP_RULES)}")
    on = machine(about.gpu)
    model, source = _built(recipe)
    train, evaluation = _found(recipe)
    train = _kept(train, recipe["data"].get("select"))
    train_section = {**recipe["train"], "output_dir": recipe["train"]["output_dir"] or "runs"}
    runs = runs_of({**recipe, "train": train_section})
    return [_dry_run(one, about, on, model, source, train, evaluation) for one in runs]


def _built(recipe: Recipe) -> tuple[Any, str]:
    """The model without weights, with the attention kernel it would be loaded with, and where its sizes are from."""
    config, source = config_of(recipe["model"]["name"])
    kernel = recipe["model"].get("attn_implementation")
    if kernel or getattr(config, "attn_logit_softcapping", None):
        config._attn_implementation = kernel or "eager"
    try:
        return weightless(config, recipe["model"]["lora"]), source
    except InputError:
        raise
    except Exception as error:  # a config may ask for any class, size or kernel
        name = recipe["model"]["name"]
        raise InputError(f"{name} cannot be built from its config ({one_line(error)}); check its config.json") from None


def _found(recipe: Recipe) -> tuple[Found, Found | None]:
    """Training pairs, and evaluation pairs if any are named or held out."""
    data, encoder = recipe["data"], _encoder(recipe)
    strict = bool(data.get("strict"))
    train = find_pairs(data["train"], encoder, data["limit"], strict=strict)
    if data["eval"]:
        return train, find_pairs(data["eval"], encoder, data["eval_limit"], strict=strict)
    if not data["eval_fraction"]:
        return train, None
    held = round(train.pairs * data["eval_fraction"])
    return replace(train, pairs=train.pairs - held), replace(train, pairs=min(held, data["eval_limit"] or held))


def _kept(train: Found, selection: dict[str, Any] | None) -> Found:
    """What a selection leaves, if every pair has a score."""
    return replace(train, pairs=max(1, round(selection["share"] * train.pairs))) if selection else train


def _dry_run(
    recipe: Recipe, about: About, on: Machine, model: Any, source: str, train: Found, evaluation: Found | None
) -> DryRun:
    # what holds for the GPUs named is asked of no device here
    args = config_from({**recipe, "train": {**recipe["train"], "use_cpu": True}})
    objective = args.chosen_objective()
    if objective.anchored:
        parameters_in_scope(model, args.anchor_scope)
    sizes = Sizes.of(model)
    batches = batch_arithmetic(args, train.pairs, about.gpus)
    engine, reason = _engine(args, model, sizes, batches, about, on) if objective.anchored else (None, "")
    longest = fitting_length(model, args.max_length)
    mean = _fitted(train.mean, longest)
    shared = args.shared_prefix != "off" and why_not_shared(backbone_of(model)) is None
    cut = _cut(args, mean, batches, shared, _tokens_at_once(about, sizes))
    mixed = args.precision == "mixed"
    step, twinless = (_step(sizes, cut, args, about, engine, twin) for twin in (mixed, False))
    holding = _holding(args, about, cut, batches, engine, 2 * longest - mean.prompt if shared else longest)
    holding = replace(holding, bank_bytes=2 if args.anchor_bank_dtype == "bf16" or "in bf16" in reason else 4)
    in_bf16 = mixed and step.exact_flops > 0
    return DryRun(
        objective=objective.name,
        about=about,
        machine=on,
        args=args,
        model=recipe["model"]["name"],
        model_source=source,
        sizes=sizes,
        train=replace(train, mean=mean),
        evaluation=evaluation,
        batches=batches,
        engine=engine,
        engine_reason=reason,
        shared=shared,
        step=step,
        memory=memory(sizes, holding),
        enough_gpus=gpus_needed(sizes, holding, on) if about.gpu != CPU else None,
        time=step_time(step, on, mixed=mixed, nodes=about.nodes),
        bf16_time=step_time(twinless, on, mixed=True, gap_in_bf16=True, nodes=about.nodes) if in_bf16 else None,
        forward_seconds=on.seconds(chunk_flops(sizes, [mean], cut, gradient=False).total, bf16=mixed),
    )


def _cut(args: PreferenceConfig, mean: Lengths, batches: BatchArithmetic, shared: bool, tokens: int) -> Cut:
    settings = getattr(args.accelerator_config, "gradient_accumulation_kwargs", None) or {}
    return Cut(
        [[mean] * batches.per_device] * batches.accumulation,
        group=batches.anchor_batches or batches.accumulation,
        shared=shared,
        tokens=tokens,
        checkpointing=args.gradient_checkpointing,
        sync_each=bool(settings.get("sync_each_batch")),
    )


def _step(
    sizes: Sizes, cut: Cut, args: PreferenceConfig, about: About, engine: str | None, twin: bool
) -> PredictedStep:
    """`twin`: the gap has a forward of its own at theta, in the anchor's precision."""
    return predicted_step(
        sizes,
        cut,
        objective=args.chosen_objective(),
        engine=engine or "two_pass",
        strategy=args.anchor_strategy,
        sharding=about.sharding,
        processes=about.gpus,
        mixed=twin,
        sam=args.sam_radius > 0,
    )


def _holding(
    args: PreferenceConfig,
    about: About,
    cut: Cut,
    batches: BatchArithmetic,
    engine: str | None,
    width: int,
) -> Holding:
    """What the process holds when its longest pairs, rows of this width, come together."""
    together = batches.per_device * (batches.anchor_batches or 1) * width * (1 if cut.shared else 2)
    return Holding(
        sharding=about.sharding,
        processes=about.gpus,
        engine=engine,
        pairs=batches.process_pairs,
        bank_bytes=4,
        tokens=max(width, min(cut.tokens, together)),
        width=width,
        checkpointing=args.gradient_checkpointing,
        sync_each=cut.sync_each,
        accumulation=batches.accumulation,
    )


def _tokens_at_once(about: About, sizes: Sizes) -> int:
    """Padded tokens of one forward, as `model.passes` cuts them on the device named."""
    return BATCH_TOKENS_ELSEWHERE if about.gpu != CPU else max(1, BATCH_ENTRIES["cpu"] // sizes.hidden)


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


def _fitted(mean: Lengths, longest: int) -> Lengths:
    """A pair of mean length, responses cut as the encoder cuts them."""
    prompt = min(mean.prompt, longest - 1)
    room = longest - prompt
    return Lengths(prompt, min(mean.chosen, room), min(mean.rejected, room))


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
        trusted = recipe["model"].get("trust_remote_code", False)
        tokenizer = AutoTokenizer.from_pretrained(str(source), trust_remote_code=trusted)
    except Exception as error:  # broken files raise anything
        raise InputError(f"the tokenizer of {name!r} cannot be read ({one_line(error)}); copy it again") from None
    data = recipe["data"]
    return Encoder(tokenizer, data.get("max_length", 2048), data.get("max_prompt_length"), data.get("template", "auto"))
