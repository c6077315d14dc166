"""The `methods` section of a recipe: what each objective changes, one line each.

    methods:
      dpo: {learning_rate: 5e-7, beta: 0.01}

Knobs of the objective become its own knobs, everything else is a key of `train`. What is given on the command line
holds for every method.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from gapo.errors import InputError, did_you_mean, shown
from gapo.objectives import objectives

_MARGIN_KEYS = {"gamma", "gamma_beta_ratio"}  # two ways to say one thing


def settle_methods(recipe: dict[str, Any], given: set[str]) -> None:
    """Move knobs to `objective.<method>`, and drop what the command line has said otherwise."""
    methods = recipe.get("methods")
    if not isinstance(methods, Mapping):
        return
    objective = recipe.setdefault("objective", {})
    rest: dict[str, Any] = {}
    for name, content in methods.items():
        if not isinstance(content, Mapping) or name not in objectives() or not isinstance(objective, dict):
            rest[name] = content  # `methods_section` says what is wrong
            continue
        knobs = {key: value for key, value in content.items() if _is_knob(str(name), str(key))}
        own = objective.get(name)
        own = own if isinstance(own, Mapping) else {}
        said = set(own) | (_MARGIN_KEYS if _MARGIN_KEYS & set(own) else set())
        if knobs or own:
            objective[name] = {**{key: value for key, value in knobs.items() if key not in said}, **own}
        rest[name] = {k: v for k, v in content.items() if k not in knobs and f"train.{k}" not in given}
    recipe["methods"] = rest


def _is_knob(method: str, key: str) -> bool:
    knobs = objectives()[method].knobs
    return key in knobs or (key == "gamma_beta_ratio" and "gamma" in knobs)


def methods_section(content: Any, where: str) -> dict[str, dict[str, Any]]:
    """The section, checked: names of objectives, each with keys of `train`."""
    from gapo.runs.kinds import check_kind
    from gapo.runs.recipe import training_names

    if not isinstance(content, Mapping):
        raise InputError(f"{where}: section 'methods' must hold objectives, not {shown(content)}")
    for name, changes in content.items():
        if name not in objectives():
            raise InputError(f"{where}: unknown objective 'methods.{name}'; {did_you_mean(str(name), objectives())}")
        if not isinstance(changes, Mapping):
            raise InputError(f"{where}: methods.{name} must hold keys, not {shown(changes)}")
        for key, value in changes.items():
            known = {*training_names(), *objectives()[name].knobs}
            if key not in known:
                raise InputError(f"{where}: unknown key 'methods.{name}.{key}'; {did_you_mean(str(key), known)}")
            check_kind("train", str(key), value, where)
    return {str(name): dict(changes) for name, changes in content.items()}


def with_method(recipe: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, dict[str, Any]]:
    """A copy of the recipe for this objective alone, without the sections beside a run."""
    own = recipe.get("methods", {}).get(name, {})
    one = {
        section: dict(deepcopy(content)) for section, content in recipe.items() if section not in ("about", "methods")
    }
    one["train"] |= deepcopy(own)
    return one
