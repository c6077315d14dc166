"""Which passes over its pairs a step makes: by objective and engine, as `training.step` and the engines run them."""

from __future__ import annotations

from dataclasses import dataclass

from gapo.errors import InputError
from gapo.objectives import Objective

CUTS = ("step", "group", "micro", "pair")


@dataclass(frozen=True)
class Pass:
    """One way over all pairs of a step.

    `cut` says what is put together before it is cut into chunks: the step, each anchor group, each micro-batch, each
    pair. `syncs` is how often its gradient is summed over processes: never, once a group, once a step, or both.
    `exact` passes are in fp32 even where gradients are taken in bf16.
    """

    name: str
    cut: str
    gradient: bool = False
    exact: bool = False
    syncs: tuple[str, ...] = ()


def passes_of(
    objective: Objective,
    engine: str = "two_pass",
    *,
    strategy: str = "batch",
    mixed: bool = False,
    sam: bool = False,
) -> tuple[Pass, ...]:
    """The passes of one step; audits (one step in fifty) and the reference's log-probs (once, before) are not in it."""
    step = Pass("step", "micro", gradient=True, syncs=("step",))
    found: list[Pass] = []
    if "kl" in objective.needs:
        found.append(Pass("other replies", "step"))
    if objective.anchored:
        found += _anchored(objective, engine, strategy, mixed)
    elif objective.coupled or "moments" in objective.needs:
        found.append(Pass("whole step", "step"))
    if sam:
        found.append(Pass("uphill", "micro", gradient=True, syncs=("step",)))
        if objective.anchored or objective.coupled or "moments" in objective.needs:
            found.append(Pass("whole step, uphill", "step"))
    has_gradient = objective.anchored and engine != "two_pass"
    return tuple(found) if has_gradient else (*found, step)


def _anchored(objective: Objective, engine: str, strategy: str, mixed: bool) -> list[Pass]:
    if engine not in ("two_pass", "bank", "first_order", "streaming"):
        raise InputError(f"nothing is known about the passes of anchor.engine {engine!r}; name an engine")
    needs_anchor = "anchor" in objective.needs
    alone = strategy == "instance"
    cut = "pair" if alone else "group"
    home = [Pass("home", cut, exact=True)] if mixed else []  # the gap's twin, in the anchor's precision
    forwards = [*home, Pass("anchor", cut, exact=True)] if needs_anchor else []
    gradients = Pass("gradients by pair", "pair", gradient=True, syncs=("step",))
    if engine == "streaming":
        return [gradients]
    if engine in ("bank", "first_order"):
        gradients = Pass("gradients by pair", "pair", gradient=True, syncs=("group", "step"))
        return [gradients] if engine == "first_order" else [gradients, *forwards]
    if strategy == "random" and needs_anchor:
        return [Pass("policy", "group"), *forwards]
    direction = Pass("direction", cut, gradient=True, syncs=() if alone else ("group",))
    if "gradient_norm" in objective.needs:
        return [direction, Pass("gradients by pair", "pair", gradient=True)]
    return [direction, *forwards]
