"""What evals.json says, read with care: every number may be missing, and an interval is given or Wilson's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gapo.report.run_files import Run, number
from gapo.report.statistics import Interval, difference, wilson


@dataclass(frozen=True)
class Rate:
    """A share with its interval, or with none where the results name neither interval nor number of pairs."""

    value: float
    interval: Interval | None


def section(run: Run, name: str) -> Mapping[str, Any]:
    """A part of evals.json, empty where it is missing."""
    value = (run.evals or {}).get(name)
    return value if isinstance(value, Mapping) else {}


def held_out_pairs(run: Run) -> int | None:
    """How many pairs the accuracy was measured on."""
    count = number((run.evals or {}).get("pairs"))
    return int(count) if count and count > 0 else None


def accuracy(run: Run, when: str) -> Rate | None:
    """Reward accuracy `before` or `after` training."""
    value = number(section(run, when).get("accuracy"))
    if value is None:
        return None
    count = held_out_pairs(run)
    given = given_interval(section(run, when), "accuracy")
    return Rate(value, given or (wilson(value, count) if count and 0 <= value <= 1 else None))


def given_interval(values: Mapping[str, Any], name: str) -> Interval | None:
    """`<name>_interval` where the results hold two numbers."""
    ends = values.get(f"{name}_interval")
    if not isinstance(ends, list) or len(ends) != 2:
        return None
    low, high = (number(end) for end in ends)
    return None if low is None or high is None else Interval(low, high)


def change(rate: Rate | None, base: Rate | None) -> Rate | None:
    """`rate - base` with its interval."""
    if rate is None or base is None:
        return None
    if rate.interval is None or base.interval is None:
        return Rate(rate.value - base.value, None)
    return Rate(rate.value - base.value, difference(rate.value, rate.interval, base.value, base.interval))


def after(run: Run, name: str) -> float | None:
    """A measure after training, from the results."""
    found = (number(section(run, place).get(name)) for place in ("measures", "after"))
    return next((value for value in found if value is not None), None)


def last_drift(run: Run) -> float | None:
    """The drift that training measured last: on fixed pairs, so not the one evaluated on the model's own replies."""
    if run.steps is None or "drift" not in run.steps:
        return None
    known = run.steps["drift"][np.isfinite(run.steps["drift"])]
    return float(known[-1])


def seconds(run: Run) -> float | None:
    """Wall-clock time of the run."""
    return number((run.evals or {}).get("seconds"))


def flip_share(run: Run) -> float | None:
    """Share of training labels that were really flipped; the asked rate where the counts are missing."""
    noise = section(run, "noise")
    flipped, of = number(noise.get("flipped")), number(noise.get("of"))
    return flipped / of if flipped is not None and of else number(noise.get("rate"))
