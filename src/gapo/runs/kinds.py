"""Which kind of value each key of a recipe holds: wrong ones are named before anything is loaded."""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Callable
from typing import Any

from gapo.errors import InputError, shown

LARGEST = 1e300  # a whole number beyond has no float
LARGEST_SEED = 2**32 - 1  # numpy takes no more
Check = tuple[Callable[[Any], bool], str]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST  # False for NaN


def whole(least: int, most: int | None = None) -> Check:
    def fits(value: Any) -> bool:
        whole_one = isinstance(value, int) and not isinstance(value, bool)
        return whole_one and value >= least and (most is None or value <= most)

    return fits, f"a whole number of at least {least}" + (f" and at most {most}" if most is not None else "")


def number(low: float = -math.inf, high: float = math.inf) -> Check:
    words = "a number" if high == math.inf else f"a number from {low:g} to {high:g}"
    words += f" of at least {low:g}" if high == math.inf and low > -math.inf else ""
    return (lambda value: _is_number(value) and low <= value <= high), words


TEXT: Check = (lambda value: isinstance(value, str) and bool(value), "a name or a path")
FLAG: Check = (lambda value: isinstance(value, bool), "true or false")
FIELDS: Check = (lambda value: isinstance(value, dict), "fields of a LoraConfig, for instance {r: 8}")


def or_null(check: Check) -> Check:
    return (lambda value: value is None or check[0](value)), check[1]


def or_auto(check: Check) -> Check:
    return (lambda value: value == "auto" or check[0](value)), f"auto, or {check[1]}"


KINDS: dict[str, Check] = {
    "model.name": TEXT,
    "model.lora": or_null(FIELDS),
    "model.dtype": TEXT,
    "model.quantization": TEXT,
    "model.merge": FLAG,
    "model.revision": or_null(TEXT),
    "model.attn_implementation": or_null(TEXT),
    "model.trust_remote_code": FLAG,
    "data.train": TEXT,
    "data.eval": or_null(TEXT),
    "data.eval_fraction": number(0, 0.9),
    "data.limit": or_null(whole(1)),
    "data.eval_limit": or_null(whole(1)),
    "data.longest": or_null(whole(1)),
    "data.template": TEXT,
    "data.max_length": whole(2),
    "data.max_prompt_length": or_null(whole(1)),
    "data.strict": FLAG,
    "data.cache_tokens": or_auto(FLAG),
    "data.tokenizer_processes": or_auto(whole(1)),
    "data.keep_texts": FLAG,
    "noise.kind": TEXT,
    "noise.rate": number(0, 1),
    "noise.seed": whole(0, LARGEST_SEED),
    "anchor.radius": number(),
    "anchor.batches": whole(1),
    "anchor.scope": TEXT,
    "anchor.strategy": TEXT,
    "anchor.engine": TEXT,
    "anchor.direction": TEXT,
    "train.output_dir": or_null(TEXT),
    "train.seed": whole(0, LARGEST_SEED),
    "train.data_seed": or_null(whole(0, LARGEST_SEED)),
    "train.per_device_train_batch_size": whole(1),
    "train.per_device_eval_batch_size": whole(1),
    "train.gradient_accumulation_steps": whole(1),
    "train.num_train_epochs": number(1e-9),
    "train.learning_rate": number(0),
    "train.max_steps": (lambda value: value == -1 or whole(1)[0](value), "a whole number of at least 1, or -1"),
    "train.sam_radius": number(0),
    "train.drift_pairs": whole(0),
    "train.reply_prompts": whole(0),
    "train.dataloader_num_workers": whole(0),
}


def check_kind(section: str, key: str, value: Any, where: str) -> None:
    """One sentence if the value is not of the key's kind."""
    check = KINDS.get(f"{section}.{key}") or (_declared(key) if section == "train" else None)
    if check is not None and not check[0](value):
        raise InputError(f"{where}: {section}.{key} must be {check[1]}, not {shown(value)}")


def _declared(key: str) -> Check | None:
    """The kind that TrainingArguments declares, where it is a plain one."""
    from gapo.training.config import PreferenceConfig

    hint = typing.get_type_hints(PreferenceConfig).get(key)
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) or typing.get_origin(hint) else (hint,)
    plain = {
        bool: FLAG,
        int: ((lambda value: isinstance(value, int) and not isinstance(value, bool)), "a whole number"),
        float: number(),
    }
    kinds = [option for option in options if option is not type(None)]
    if len(kinds) != 1 or kinds[0] not in plain:
        return None
    return or_null(plain[kinds[0]]) if len(options) > 1 else plain[kinds[0]]
