"""The `about` section of a recipe: which hardware it expects, how the model is spread over it, how long it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from gapo.errors import InputError, did_you_mean, shown
from gapo.runs.kinds import TEXT, Check, number, whole

SHARDINGS = ("none", "ddp", "fsdp2")


@dataclass(frozen=True)
class About:
    """What a recipe expects. `hours` holds the estimate for each objective."""

    text: str = ""
    gpu: str = "cpu"
    gpus: int = 1
    nodes: int = 1
    sharding: str = "none"
    hours: Mapping[str, float] = field(default_factory=dict)


_KINDS: dict[str, Check] = {
    "text": TEXT,
    "gpu": TEXT,
    "gpus": whole(1),
    "nodes": whole(1),
    "sharding": ((lambda value: value in SHARDINGS), f"one of {', '.join(SHARDINGS)}"),
    "hours": (
        lambda value: isinstance(value, Mapping) and all(number(0)[0](hours) for hours in value.values()),
        "hours by objective, for instance {gapo: 3.5}",
    ),
}


def about_section(content: Any, where: str) -> dict[str, Any]:
    """The section, checked."""
    if not isinstance(content, Mapping):
        raise InputError(f"{where}: section 'about' must hold keys, not {shown(content)}")
    known = [one.name for one in fields(About)]
    for key, value in content.items():
        if key not in known:
            raise InputError(f"{where}: unknown key 'about.{key}'; {did_you_mean(str(key), known)}")
        fits, words = _KINDS[key]
        if not fits(value):
            raise InputError(f"{where}: about.{key} must be {words}, not {shown(value)}")
    about = About(**content)
    if about.gpus % about.nodes:
        raise InputError(f"{where}: about.gpus {about.gpus} cannot be spread evenly over {about.nodes} nodes")
    if about.gpus > 1 and about.sharding == "none":
        raise InputError(f"{where}: about.sharding must be ddp or fsdp2 on {about.gpus} GPUs, not none")
    return dict(content)


def about_of(recipe: Mapping[str, Any]) -> About:
    return About(**recipe.get("about", {}))
