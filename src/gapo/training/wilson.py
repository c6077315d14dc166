"""The interval of a share."""

from __future__ import annotations

import math


def wilson_interval(share: float, n: float, z: float = 1.959963984540054) -> tuple[float, float]:
    """Wilson's 95 % interval of a share of n: it stays inside [0, 1] and holds near the ends."""
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return max(0.0, middle - half), min(1.0, middle + half)
