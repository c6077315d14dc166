"""What is compared: TRL's SimPO and DPO, ours, consensus judged in two ways, and GAPO with every engine there is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gapo.anchor.settings import ENGINE_NAMES
from gapo.bench.setting import MAX_LENGTH, Setting, Workload
from gapo.errors import InputError, did_you_mean
from gapo.training.config import PreferenceConfig
from gapo.training.trainer import PreferenceTrainer

AUTO = "auto"
TRL_SIMPO, TRL_DPO = "trl-simpo", "trl-dpo"
SIMPO = {"beta": 2.5, "gamma": 0.25}
NO_TRL = "TRL is not installed (pip install 'gapo[test]'), so its variants are left out"
Build = Callable[[Workload, Setting, Path, Any], Any]  # the optimiser is last: None makes one


@dataclass(frozen=True)
class Variant:
    """One row of the table: how its trainer is built."""

    name: str
    label: str
    build: Build
    ours: bool = True


def shared_arguments(setting: Setting, folder: Path) -> dict[str, Any]:
    """`TrainingArguments` all trainers get. A learning rate of 0: every repetition does the same work."""
    return {
        "output_dir": str(folder),
        "per_device_train_batch_size": setting.micro_batch,
        "gradient_accumulation_steps": setting.accumulation,
        "max_steps": 10_000,  # the loop is ours
        "learning_rate": 0.0,
        "weight_decay": 0.0,
        "optim": "adamw_torch",
        "max_length": MAX_LENGTH,
        "gradient_checkpointing": False,
        "use_cpu": True,
        "report_to": "none",
        "disable_tqdm": True,
        "save_strategy": "no",
    }


def build_ours(
    objective: str, knobs: dict[str, Any], work: Workload, setting: Setting, folder: Path, optimizer: Any
) -> PreferenceTrainer:
    """`PreferenceTrainer`, one anchor for the whole step."""
    args = PreferenceConfig(
        **shared_arguments(setting, folder),
        precision=setting.precision,
        objective=objective,
        anchor_batches=setting.accumulation,
        drift_pairs=0,  # not part of a step: measured every few
        **knobs,
    )
    return PreferenceTrainer(
        work.twin(), args, work.pairs, processing_class=work.tokenizer, optimizers=(optimizer, None)
    )


def auto_first(variants: Sequence[Variant]) -> list[Variant]:
    """`auto` goes by the memory that is free: it should find what a user finds, not what the others have left."""
    return sorted(variants, key=lambda variant: variant.name != f"gapo-{AUTO}")


def engine_of(trainer: Any) -> str | None:
    """The engine `auto` has come to, and how it keeps gradients."""
    choice = getattr(trainer, "engine_choice", None)
    return None if choice is None else f"{choice.name}{' (bf16)' if choice.bank_dtype is not None else ''}"


def all_variants() -> dict[str, Variant]:
    """Every variant by name, TRL's first."""
    from gapo.bench import theirs  # its imports of TRL wait until a trainer is built

    variants = [
        Variant(TRL_SIMPO, "TRL SimPO", theirs.build_simpo, ours=False),
        Variant(TRL_DPO, "TRL DPO", theirs.build_dpo, ours=False),
        Variant("simpo", "gapo SimPO", partial(build_ours, "simpo", SIMPO)),
        Variant("dpo", "gapo DPO", partial(build_ours, "dpo", {"beta": 0.1})),
    ]
    for judge, name in (("start", "consensus"), ("running", "consensus-running")):
        build = partial(build_ours, "consensus", {"consensus_judge": judge, "cache_reference": False})
        variants.append(Variant(name, f"consensus, judged {'at the ' if judge == 'start' else ''}{judge}", build))
    for engine in ENGINE_NAMES:
        build = partial(build_ours, "gapo", {"anchor_engine": engine})
        variants.append(Variant(f"gapo-{engine}", f"GAPO, {engine}", build))
    return {variant.name: variant for variant in variants}


def chosen_variants(names: Sequence[str] | None, say: Callable[[str], None]) -> list[Variant]:
    """The variants of these names, or all; TRL's only where it is installed."""
    known = all_variants()
    for name in names or ():
        if name not in known:
            raise InputError(f"unknown variant {name!r}; {did_you_mean(name, known)}")
    chosen = [known[name] for name in dict.fromkeys(names or known)]
    if find_spec("trl") is None and any(not variant.ours for variant in chosen):
        say(NO_TRL)
        chosen = [variant for variant in chosen if variant.ours]
    if not chosen:
        raise InputError(f"nothing is left to measure: {NO_TRL}")
    return chosen
