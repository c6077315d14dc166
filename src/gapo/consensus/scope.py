"""By what a label is judged: hidden states of one forward, or gradients, of all parameters or of some."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import nn

from gapo.anchor.gap import parameters_in_scope
from gapo.errors import InputError

AUTO, STATES, TOP, FULL = "auto", "states", "top", "full"
SHARE, FEWEST = 0.25, 2  # of the layers
AGREED, ALL = "agreed", "all"  # which directions lead: those in which labels agree beyond chance, or all as they are


def judging_parameters(
    model: nn.Module, scope: str = FULL, key: str = "train.consensus_scope"
) -> tuple[nn.Parameter, ...]:
    """The trained parameters that `anchor.scope` would name, or for `top` those of the last quarter of the layers."""
    if scope != TOP:
        try:
            return parameters_in_scope(model, scope, key)
        except InputError as error:
            raise InputError(f"{error}; or use {STATES}, {FULL} or {TOP}") from None
    layer = re.compile(r"\.(\d+)\.")
    named = [(layer.search(name), p) for name, p in model.named_parameters() if p.requires_grad]
    numbered = [(int(found[1]), p) for found, p in named if found]
    if not numbered:
        return parameters_in_scope(model)
    layers = max(number for number, _ in numbered) + 1
    return tuple(p for number, p in numbered if number >= layers - max(FEWEST, round(SHARE * layers)))


@contextmanager
def only(model: nn.Module, parameters: Sequence[nn.Parameter]) -> Iterator[None]:
    """Inside, these alone ask for a gradient: a backward goes no deeper than the first of them."""
    asked = {id(p) for p in parameters}
    aside = [p for p in model.parameters() if p.requires_grad and id(p) not in asked]
    for parameter in aside:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in aside:
            parameter.requires_grad_(True)
