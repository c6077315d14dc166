"""The few numbers a bench is read by: medians with their spread, ratios of paired repetitions, growth exponents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, nan, sqrt
from statistics import mean, median


@dataclass(frozen=True)
class Spread:
    """A headline number and the least and greatest that were seen."""

    value: float
    low: float
    high: float

    def over(self, divisor: float) -> Spread:
        return Spread(self.value / divisor, self.low / divisor, self.high / divisor)

    def under(self, dividend: float) -> Spread:
        """dividend / self: the ends change places."""
        return Spread(dividend / self.value, dividend / self.high, dividend / self.low)


def spread(values: Sequence[float]) -> Spread:
    """The median: one slow repetition on a busy machine must not move it."""
    return Spread(median(values), min(values), max(values))


def ratio(top: Mapping[int, float], bottom: Mapping[int, float]) -> Spread | None:
    """Ratio of the medians, with the least and greatest ratio of the repetitions both were measured in.

    Keys are repetitions: two measurements of one repetition lie close in time, so a slow hour slows both.
    """
    shared = sorted(top.keys() & bottom.keys())
    if not shared:
        return None
    paired = [top[at] / bottom[at] for at in shared]
    return Spread(median(top.values()) / median(bottom.values()), min(paired), max(paired))


def order(names: Sequence[str], repetition: int) -> list[str]:
    """Every second repetition runs backwards, and every two start one variant later.

    So no variant always runs first, or always after the same neighbour: over 2n repetitions each of n variants stands
    twice in every place.
    """
    start = repetition // 2 % len(names)
    rotated = [*names[start:], *names[:start]]
    return rotated[::-1] if repetition % 2 else rotated


@dataclass(frozen=True)
class Growth:
    """y = factor * x ** exponent, with the standard error of the exponent (NaN for two points)."""

    exponent: float
    error: float
    factor: float


def fitted_growth(x: Sequence[float], y: Sequence[float]) -> Growth:
    """Least squares of log y on log x."""
    a, b = [log(value) for value in x], [log(value) for value in y]
    centre_a, centre_b = mean(a), mean(b)
    width = sum((at - centre_a) ** 2 for at in a)
    exponent = sum((at - centre_a) * (bt - centre_b) for at, bt in zip(a, b, strict=True)) / width
    rest = sum((bt - centre_b - exponent * (at - centre_a)) ** 2 for at, bt in zip(a, b, strict=True))
    error = sqrt(rest / (len(a) - 2) / width) if len(a) > 2 else nan
    return Growth(exponent, error, exp(centre_b - exponent * centre_a))
