"""Numbers that are not finite stop a run, with the step and the pairs.

Losses and gradients are looked at before each update, by numbers that are there anyway. Weights are looked at where
they would be written; until then they show in the log-probs of the next step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from gapo.errors import TrainingStopped
from gapo.model.ranks import ALONE, Ranks
from gapo.model.sharding import is_sharded, local


@dataclass
class Suspects:
    """Pairs of a step with a number that is not finite, by where it shows.

    A loss or a direction that mixes pairs is spoilt for all of them by one: whose own numbers are bad is asked first.
    """

    own: list[str] = field(default_factory=list)  # log-probs, gap, gain over the reference
    losses: list[str] = field(default_factory=list)
    gradients: list[str] = field(default_factory=list)  # of the margin, where the engine has each pair's

    def look(self, ids: Sequence[str], own: Sequence[Tensor], loss: Tensor, norms: Tensor | None = None) -> None:
        """At the pairs of a micro-batch; `norms` are those of their gradients."""
        self.own += _bad(ids, own)
        self.losses += _bad(ids, [loss])
        self.gradients += _bad(ids, [norms]) if norms is not None else []


def _bad(ids: Sequence[str], columns: Sequence[Tensor]) -> list[str]:
    good = torch.stack([torch.isfinite(column) for column in columns]).all(0).tolist()
    return [name for name, fine in zip(ids, good, strict=True) if not fine]


def check_losses(suspects: Suspects, model: nn.Module, step: int, ranks: Ranks = ALONE) -> None:
    """Of a step's pairs, before its update. All ranks stop together: one alone would leave the others waiting."""
    if not ranks.largest(len(suspects.own) + len(suspects.losses)):
        return
    bad = _of_all(suspects.own, ranks) or _of_all(suspects.losses, ranks)
    broken = broken_weights(model, ranks)
    advice = (
        f"the update before it made weights that are not finite ({broken}); go on from a checkpoint with a lower "
        "learning rate"
        if broken
        else "lower the learning rate, or look at these pairs"
    )
    raise TrainingStopped(
        f"step {step}: the loss is not finite for {len(bad)} pairs ({_some(bad)}); this step's update was not made; "
        f"{advice}",
        step,
        bad,
    )


def check_gradient(
    norm: float, what: str, suspects: Suspects, ids: Sequence[str], step: int, ranks: Ranks = ALONE
) -> None:
    """The norm of a step's gradient, the same on all ranks, before the update. One that overflows is inf."""
    if math.isfinite(norm):
        return
    bad = _of_all(suspects.gradients, ranks)
    whose = f"for {len(bad)} pairs ({_some(bad)})" if bad else f"(pairs {_some(ids)} and others of the step)"
    raise TrainingStopped(
        f"step {step}: {what} is not finite {whose}; this step's update was not made; lower the learning rate, or look "
        "at these pairs",
        step,
        bad,
    )


def check_weights(model: nn.Module, step: int, ranks: Ranks = ALONE) -> None:
    """Before they are written, and after the last update, which no later step would notice."""
    if broken := broken_weights(model, ranks):
        raise TrainingStopped(
            f"step {step}: the update made weights that are not finite ({broken}); they are not written; lower the "
            "learning rate",
            step,
        )


def broken_weights(model: nn.Module, ranks: Ranks = ALONE) -> str | None:
    """The first trained parameter with an entry that is not finite, by name. Only shards differ between ranks."""
    trained = ((name, local(p.detach())) for name, p in model.named_parameters() if p.requires_grad)
    found = next((name for name, part in trained if not bool(torch.isfinite(part).all())), None)
    if not is_sharded(model):
        return found
    return next(iter(_of_all([found] if found else [], ranks)), None)


def _of_all(names: list[str], ranks: Ranks) -> list[str]:
    """Each once: SAM meets a pair twice."""
    return list(dict.fromkeys(name for own in ranks.gather_objects(names) for name in own))


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5])
