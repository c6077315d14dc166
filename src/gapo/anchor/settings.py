"""What an anchor is told."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gapo.errors import InputError, did_you_mean

STRATEGY_NAMES = ("batch", "instance", "random")
ENGINE_NAMES = ("auto", "two_pass", "bank", "first_order", "streaming")
BANK_DTYPES = ("auto", "fp32", "bf16")
DIRECTIONS = ("global", "rank")


@dataclass(frozen=True)
class AnchorSettings:
    """rho; how many micro-batches share an anchor; which parameters move; along whose direction; by which engine.

    `direction`: of several processes, all share the direction of their pairs together, or each (`rank`) has its own.
    """

    radius: float = 0.05
    batches: int = 8
    scope: str = "full"
    strategy: str = "batch"
    engine: str = "auto"
    bank_dtype: str = "auto"
    seed: int = 0
    direction: str = "global"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.radius) and self.radius > 0):
            raise InputError(f"anchor.radius must be a number greater than 0, not {self.radius}")
        if self.batches < 1:
            raise InputError(f"anchor.batches must be at least 1, not {self.batches}")
        known_values = {"strategy": STRATEGY_NAMES, "engine": ENGINE_NAMES, "bank_dtype": BANK_DTYPES}
        for key, known in {**known_values, "direction": DIRECTIONS}.items():
            if (value := getattr(self, key)) not in known:
                raise InputError(f"unknown anchor.{key} {value!r}; {did_you_mean(value, known)}")
        if self.engine == "streaming" and self.strategy != "batch":
            raise InputError("anchor.engine streaming knows only anchor.strategy batch; choose another engine")
