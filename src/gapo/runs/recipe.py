"""A recipe: six sections of plain values that say everything about a run.

Two more are not part of a run: `about` says what the recipe expects, `methods` what each objective changes.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import fields
from pathlib import Path
from typing import Any

from gapo.errors import InputError, did_you_mean, shown
from gapo.model.refusals import NO_HUB_TOKEN, refuse_launch, refuse_model_settings
from gapo.objectives import objectives
from gapo.pairs.yaml_text import NotYaml, read_yaml
from gapo.runs.about import about_section
from gapo.runs.kinds import check_kind
from gapo.runs.methods import methods_section, settle_methods, with_method
from gapo.runs.selection import identity, settled
from gapo.storage import embedded

Recipe = dict[str, dict[str, Any]]

_BESIDE = {"about": about_section, "methods": methods_section}  # read by people and dry runs; a run has none
_ANCHOR = ("radius", "batches", "scope", "strategy", "engine", "bank_dtype", "direction")
_WORDS = ("name", "train", "eval", "output_dir", "revision", "from")
_ENCODING = ("template", "max_length", "max_prompt_length", "strict", "cache_tokens", "tokenizer_processes")
_FREE = {
    ("train", "output_dir"),
    ("train", "max_steps"),
    ("train", "num_train_epochs"),
    ("train", "save_strategy"),
    ("train", "save_steps"),
    ("train", "save_total_limit"),
    ("train", "disable_tqdm"),
    ("data", "cache_tokens"),
    ("data", "tokenizer_processes"),
    ("data", "keep_texts"),
}
_NUMBER = re.compile(r"[+-]?(\d[\d_]*\.?\d*|\.\d+)[eE][+-]?\d+")  # YAML 1.1 reads 1e-5 as text


def recipe_folders() -> list[Path]:
    """Where named recipes live: in the installed package, or at the top of a checkout."""
    return [folder for folder in (embedded("recipes"), embedded("..", "..", "recipes").resolve()) if folder.is_dir()]


def recipe_names() -> list[str]:
    return sorted({path.stem for folder in recipe_folders() for path in folder.glob("*.yaml")})


def read_recipe(name: str, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe of this name or path, with `section.key=value` overrides, complete and checked.

    Other training pairs keep neither the recipe's evaluation pairs nor its label noise nor its selection.
    """
    path = Path(name).expanduser()
    if path.suffix not in (".yaml", ".yml"):
        candidates = [folder / f"{name}.yaml" for folder in recipe_folders()]
        path = next((candidate for candidate in candidates if os.path.isfile(candidate)), path)
    if not os.path.isfile(path):  # unlike Path.is_file, it is also False of a name that no disk takes
        raise InputError(
            f"there is no recipe {shown(name)}; {did_you_mean(name, recipe_names())}, or give a .yaml file"
        )
    recipe = _parsed(path, name)
    given = {override.partition("=")[0] for override in overrides}
    if "data.train" in given:  # the recipe's evaluation pairs and its noise belonged to its own pairs
        if "data.eval" not in given and isinstance(recipe.get("data"), dict):
            recipe["data"].pop("eval", None)
        if not any(key.startswith("data.select") for key in given) and isinstance(recipe.get("data"), dict):
            recipe["data"].pop("select", None)
        if not any(key.startswith("noise.") for key in given):
            recipe.pop("noise", None)
    for override in overrides:
        _apply(recipe, override)
    settle_methods(recipe, given)
    return resolved(recipe, where=name)


def _parsed(path: Path, name: str) -> dict[str, Any]:
    try:
        content = read_yaml(path.read_text(encoding="utf-8"), once=True)
    except (NotYaml, UnicodeDecodeError, OSError) as error:
        where = f", line {error.line}" if isinstance(error, NotYaml) and error.line else ""
        what = (error.strerror if isinstance(error, OSError) else None) or error
        raise InputError(f"{name}{where} is not a readable YAML file ({what}); mend it") from None
    if not isinstance(content, dict):
        raise InputError(f"{name} must hold the sections {', '.join(_defaults())}")
    found: dict[str, Any] = _with_numbers(content)
    return found


def _with_numbers(value: Any) -> Any:
    """The same values, with numbers like 1e-5 read as numbers."""
    if isinstance(value, dict):
        return {key: _as_meant(str(key), _with_numbers(item), item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_numbers(item) for item in value]
    return float(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else value


def _as_meant(key: str, value: Any, written: Any) -> Any:
    """YAML reads `no`, `on` and `off` as truth values and some names as numbers; these keys hold words."""
    if key in _WORDS and not isinstance(value, dict | list | bool) and value is not None:
        return str(written)
    if key == "shared_prefix" and isinstance(value, bool):
        return "on" if value else "off"
    return "no" if key.endswith("_strategy") and value is False else value


def _apply(recipe: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    path = key.split(".")
    if not equals or len(path) < 2:
        raise InputError(f"{shown(override)} is not of the form section.key=value; write it like objective.beta=2.5")
    try:
        parsed = read_yaml(text, once=True)
        value = _as_meant(path[-1], _with_numbers(parsed), parsed if parsed is None else text)
    except NotYaml:
        value = text
    place = recipe
    for part in path[:-1]:
        if not isinstance(place.setdefault(part, {}), dict):
            place[part] = {}
        place = place[part]
    place[path[-1]] = value


def resolved(recipe: Mapping[str, Any], where: str = "the recipe") -> Recipe:
    """The recipe with every section and default filled in. An unknown key is an error with the nearest name."""
    complete = _defaults()
    for section, content in recipe.items():
        if section in _BESIDE:
            complete[section] = deepcopy(_BESIDE[section](content, where))
            continue
        if section not in complete:
            raise InputError(f"{where}: unknown section {shown(section)}; {did_you_mean(str(section), complete)}")
        if content is None:
            continue
        if not isinstance(content, Mapping):
            raise InputError(f"{where}: section {section!r} must hold keys, not {shown(content)}")
        known = _known_keys(section)
        for key, value in content.items():
            if key not in known:
                raise InputError(f"{where}: unknown key '{section}.{key}'; {did_you_mean(str(key), known)}")
            check_kind(section, str(key), value, where)
            complete[section][key] = deepcopy(value)
    if complete["data"].get("longest") is None:
        complete["data"].pop("longest", None)  # pairs of any length: the same run as without the key
    if complete["data"].get("select") is None:
        complete["data"].pop("select", None)  # all pairs: the same run as without the key
    else:
        complete["data"]["select"] = settled(complete["data"]["select"], where)
    _check_objectives(complete, where)
    refuse_model_settings(**complete["model"])
    train = complete["train"]
    if train.get("hub_token"):
        raise InputError(NO_HUB_TOKEN)  # before recipe.yaml is written
    refuse_launch(**{key: train[key] for key in ("deepspeed", "fp16", "fsdp", "fsdp_config") if key in train})
    return complete


def _check_objectives(complete: Recipe, where: str) -> None:
    named = _listed(complete["objective"]["name"])
    if not named or len(set(map(str, named))) < len(named):
        raise InputError(
            f"{where}: objective.name must be one objective, or several different ones, not {shown(named)}"
        )
    for method in _listed(complete["objective"]["name"]):
        if str(method) not in objectives():
            raise InputError(f"{where}: unknown objective {shown(method)}; {did_you_mean(str(method), objectives())}")
    for method in set(complete["objective"]) & set(objectives()):
        knobs_of(complete, method, shared_too=False)


def _defaults() -> Recipe:
    return {
        "model": {"name": "lab", "lora": None, "dtype": "float32", "quantization": "none", "merge": False},
        "data": {"train": "lab", "eval": None, "eval_fraction": 0.0, "limit": None, "eval_limit": None},
        "noise": {"kind": "random", "rate": 0.0, "seed": 0},
        "objective": {"name": "gapo"},
        "anchor": {
            "radius": 0.05,
            "batches": 8,
            "scope": "full",
            "strategy": "batch",
            "engine": "auto",
            "bank_dtype": "auto",
            "direction": "global",
        },
        "train": {"output_dir": None, "seed": 0},
    }


def _known_keys(section: str) -> set[str]:
    if section == "model":
        return {*_defaults()["model"], "attn_implementation", "revision", "trust_remote_code"}
    if section == "data":
        return {*_defaults()["data"], *_ENCODING, "select", "keep_texts", "longest"}
    if section == "objective":
        knobs = {knob for objective in objectives().values() for knob in objective.knobs}
        return {"name", "gamma_beta_ratio", *knobs, *objectives()}
    if section == "train":
        return training_names()
    return set(_defaults()[section])


def training_names() -> set[str]:
    """Fields of PreferenceConfig that no other section sets."""
    from gapo.training.config import PreferenceConfig

    elsewhere = {"objective", "beta", "gamma", "knobs", *(f"anchor_{key}" for key in _ANCHOR), *_ENCODING}
    return {field.name for field in fields(PreferenceConfig) if field.init} - elsewhere


def _listed(name: Any) -> list[Any]:
    return list(name) if isinstance(name, list | tuple) else [name]


def runs_of(recipe: Recipe) -> list[Recipe]:
    """One recipe for each objective named; several get a folder each below `train.output_dir`."""
    names = _listed(recipe["objective"]["name"])
    single = []
    for name in names:
        one = with_method(recipe, name)
        one["objective"] = {"name": name, **knobs_of(recipe, name)}
        if len(names) > 1:
            one["train"]["output_dir"] = str(Path(recipe["train"]["output_dir"]) / name)
        single.append(one)
    return single


def knobs_of(recipe: Recipe, name: str, *, shared_too: bool = True) -> dict[str, Any]:
    """Knobs for one method: its own subsection, then (unless told otherwise) what is given for all."""
    section = recipe["objective"]
    own = section.get(name) or {}
    if not isinstance(own, Mapping):
        raise InputError(f"objective.{name} must hold knobs, not {shown(own)}")
    shared = {key: value for key, value in section.items() if key != "name" and key not in objectives()}
    shared = shared if shared_too else {}
    knobs = {**own, **shared}
    if "gamma" in shared and "gamma_beta_ratio" in own:
        knobs.pop("gamma_beta_ratio")
    if "gamma_beta_ratio" in shared and "gamma" in own:
        knobs.pop("gamma")
    objectives()[name].turn(**knobs)  # wrong knobs are wrong before anything is loaded
    return knobs


def policy_arguments(recipe: Recipe) -> dict[str, Any]:
    """The model section as keyword arguments of `load_policy`: what is done after training is none of its own."""
    return {key: value for key, value in recipe["model"].items() if key != "merge"}


def preference_arguments(recipe: Recipe) -> dict[str, Any]:
    """The recipe's words for PreferenceConfig."""
    objective = dict(recipe["objective"])
    return {
        **recipe["train"],
        "objective": objective.pop("name"),
        "knobs": objective,
        **{f"anchor_{key}": recipe["anchor"][key] for key in _ANCHOR},
        **{key: recipe["data"][key] for key in _ENCODING if key in recipe["data"]},
    }


def differences(one: Recipe, other: Recipe) -> list[str]:
    """Keys that make two runs different ones; where it is written, how long it goes on, how often it saves do not."""
    keys = {(section, key) for recipe in (one, other) for section, content in recipe.items() for key in content}
    return sorted(
        f"{section}.{key}"
        for section, key in keys - _FREE
        if one.get(section, {}).get(key) != other.get(section, {}).get(key)
    )


def recipe_hash(recipe: Recipe) -> str:
    """What identifies a run: everything but where it is written."""
    content = deepcopy(recipe)
    content["train"].pop("output_dir", None)
    for key in ("cache_tokens", "tokenizer_processes", "keep_texts"):  # the pairs are the same
        content["data"].pop(key, None)
    if content["data"].get("select"):
        content["data"]["select"] = identity(content["data"]["select"])
    return hashlib.blake2b(json.dumps(content, sort_keys=True, default=str).encode(), digest_size=8).hexdigest()
