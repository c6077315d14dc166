"""How a loss becomes an objective: its signature is the contract.

Positional parameters are needs (what the step must compute), keyword-only parameters are knobs with defaults.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from torch import Tensor

from gapo.errors import InputError, did_you_mean
from gapo.model.logps import PairLogps, PerPair

Loss = Callable[..., Tensor]
Knob = float | bool

NEEDS = {
    "policy": "log-probs under the policy, with gradient",
    "reference": "log-probs under the frozen start model",
    "anchor": "log-probs under the displaced policy",
    "kl": "how far the policy has moved on mismatched pairs of the step",
    "moments": "running mean and std of the margin gain over the reference",
    "gradient_norm": "norm of each pair's margin gradient, scaled to the mean gap",
    "length_term": "1/|y_w| + 1/|y_l| of each pair, scaled to the mean gap",
    "wrong": "probability that each label is wrong, by the direction of the other pairs",
}

_RANGES: dict[str, tuple[Callable[[float], bool], str]] = {
    "beta": (lambda x: x > 0, "greater than 0"),
    "tau": (lambda x: x > 0, "greater than 0"),
    "b": (lambda x: x > 0, "greater than 0"),
    "e": (lambda x: 0 <= x < 0.5, "at least 0 and below 0.5"),
}


@dataclass(frozen=True)
class Moments:
    """Mean and standard deviation of a running quantity."""

    mean: float
    std: float


@dataclass(frozen=True)
class Reward:
    """What the objective calls the reward of a response: per token or in total, alone or above the reference."""

    per_token: bool
    relative: bool

    def margin(self, logps: PairLogps) -> PerPair:
        return logps.margin if self.per_token else logps.total_margin

    def gain(self, policy: PairLogps, reference: PairLogps | None) -> PerPair:
        """Reward of the chosen response minus reward of the rejected one; its sign is the accuracy."""
        if not self.relative:
            return self.margin(policy)
        if reference is None:
            raise ValueError("this reward is relative to a reference, and none was given")
        return self.margin(policy) - self.margin(reference)


@dataclass(frozen=True)
class Objective:
    """A loss with its knobs turned. `coupled` losses mix the pairs of a step and return one number for all."""

    name: str
    loss: Loss
    needs: tuple[str, ...]
    knobs: Mapping[str, Knob]
    reward: Reward
    coupled: bool = False
    chosen_knobs: Mapping[str, Knob] = field(default_factory=lambda: MappingProxyType({}))

    def __call__(self, *args: object, **needs: object) -> Tensor:
        return self.loss(*args, **needs, **self.settings)

    @property
    def settings(self) -> dict[str, Knob]:
        """Every knob with its value."""
        return {**self.knobs, **self.chosen_knobs}

    @property
    def anchored(self) -> bool:
        """Whether a gap (or its stand-in) sets the weights."""
        return bool({"anchor", "gradient_norm", "length_term"} & set(self.needs))

    @property
    def watched(self) -> bool:
        """Whether the labels are judged by the other pairs' direction."""
        return "wrong" in self.needs

    def turn(self, **knobs: Knob) -> Objective:
        """The same loss with these knobs. `gamma_beta_ratio` is accepted where there is a gamma."""
        if "gamma_beta_ratio" in knobs and {"gamma", "beta"} <= set(self.knobs):
            if "gamma" in knobs:
                raise InputError("give gamma (absolute) or gamma_beta_ratio (gamma divided by beta), not both")
            ratio, beta = knobs.pop("gamma_beta_ratio"), knobs.get("beta", self.settings["beta"])
            self._check("beta", beta)
            self._check("gamma", ratio, called="gamma_beta_ratio")
            knobs["gamma"] = ratio * beta
        for name, value in knobs.items():
            self._check(name, value)
        # a loss asked for its summed form (ipo) has the total margin as its own
        reward = replace(self.reward, per_token=not knobs["summed"]) if "summed" in knobs else self.reward
        return replace(self, chosen_knobs=MappingProxyType({**self.chosen_knobs, **knobs}), reward=reward)

    def _check(self, name: str, value: Knob, called: str | None = None) -> None:
        if name not in self.knobs:
            raise InputError(f"{self.name} has no knob {name!r}; {did_you_mean(name, self.knobs)}")
        wants_bool = isinstance(self.knobs[name], bool)
        if wants_bool != isinstance(value, bool) or not isinstance(value, int | float):
            kind = "true or false" if wants_bool else "a number"
            raise InputError(f"{self.name}'s knob {(called or name)!r} must be {kind}, not {value!r}")
        inside, words = _RANGES.get(name, (lambda _: True, ""))
        if not (inside(value) and math.isfinite(value)):
            wanted = "a finite number" if inside(value) else words
            raise InputError(f"{self.name}'s knob {(called or name)!r} must be {wanted}, not {value}")


_OBJECTIVES: dict[str, Objective] = {}


def objective(*, per_token: bool, relative: bool = False, coupled: bool = False) -> Callable[[Loss], Objective]:
    """Register a loss under its function name. The reward is given per token or in total, relative or not."""

    def register(loss: Loss) -> Objective:
        parameters = inspect.signature(loss).parameters.values()
        needs = tuple(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD)
        knobs = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
        unknown = set(needs) - set(NEEDS)
        if unknown or any(default is inspect.Parameter.empty for default in knobs.values()):
            raise TypeError(f"{loss.__name__}: needs are {sorted(NEEDS)}, knobs are keyword-only with defaults")
        registered = Objective(
            loss.__name__, loss, needs, MappingProxyType(knobs), Reward(per_token, relative), coupled
        )
        _OBJECTIVES[loss.__name__] = registered
        return registered

    return register


def get_objective(name: str, **knobs: Knob) -> Objective:
    """The objective of this name with its knobs turned."""
    from gapo.objectives import anchored, doubted, policy_only, with_reference  # noqa: F401  (registers them)

    if name not in _OBJECTIVES:
        raise InputError(f"unknown objective {name!r}; {did_you_mean(name, _OBJECTIVES)}")
    return _OBJECTIVES[name].turn(**knobs)


def objectives() -> dict[str, Objective]:
    """Every objective by name."""
    from gapo.objectives import anchored, doubted, policy_only, with_reference  # noqa: F401  (registers them)

    return dict(sorted(_OBJECTIVES.items()))
