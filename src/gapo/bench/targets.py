"""What we set out to reach, and whether the measurement does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gapo.bench.arithmetic import Spread, ratio
from gapo.bench.variants import TRL_SIMPO


@dataclass(frozen=True)
class Target:
    """`kind` of `top` against that of `bottom`, at most `limit`; without a bottom, `top`'s own, at least `limit`."""

    kind: str  # time, memory or share
    top: str
    limit: float
    bottom: str | None = None


@dataclass(frozen=True)
class Outcome:
    """A target and what was measured; None where it was not."""

    target: Target
    found: Spread | None

    @property
    def reached(self) -> bool | None:
        if self.found is None:
            return None
        return self.found.value <= self.target.limit if self.target.bottom else self.found.value >= self.target.limit

    @property
    def verdict(self) -> str:
        return {True: "pass", False: "miss", None: "not measured"}[self.reached]


TARGETS = (
    Target("time", "gapo-auto", 0.75, TRL_SIMPO),
    Target("time", "gapo-first_order", 0.55, TRL_SIMPO),
    Target("time", "simpo", 0.45, TRL_SIMPO),
    Target("time", "gapo-bank", 1.45, "simpo"),
    Target("time", "gapo-first_order", 1.15, "simpo"),
    Target("time", "gapo-two_pass", 2.40, "simpo"),
    Target("time", "consensus", 1.40, "simpo"),
    Target("time", "consensus-running", 1.40, "simpo"),
    Target("memory", "gapo-auto", 1.00, TRL_SIMPO),
    Target("share", "simpo", 0.60),
)


def outcomes(
    seconds: Mapping[str, Mapping[int, float]], peaks: Mapping[str, float], shares: Mapping[str, Spread]
) -> list[Outcome]:
    """Every target with its number. Seconds are by variant and repetition, peaks of memory and shares by variant."""
    return [Outcome(target, _found(target, seconds, peaks, shares)) for target in TARGETS]


def _found(
    target: Target,
    seconds: Mapping[str, Mapping[int, float]],
    peaks: Mapping[str, float],
    shares: Mapping[str, Spread],
) -> Spread | None:
    if target.bottom is None:
        return shares.get(target.top)
    if target.kind == "time":
        return ratio(seconds.get(target.top, {}), seconds.get(target.bottom, {}))
    if target.top not in peaks or target.bottom not in peaks:
        return None
    value = peaks[target.top] / peaks[target.bottom]
    return Spread(value, value, value)
