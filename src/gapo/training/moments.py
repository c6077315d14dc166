"""Running statistics of a stream."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from gapo.objectives import Moments


@dataclass
class RunningMoments:
    """Mean and std of a stream with exponential forgetting, corrected for the cold start."""

    decay: float = 0.9
    first: float = 0.0
    second: float = 0.0
    updates: int = 0

    def update(self, values: Tensor) -> Moments:
        values = values.cpu().double()
        self.first = self.decay * self.first + (1 - self.decay) * float(values.mean())
        self.second = self.decay * self.second + (1 - self.decay) * float(values.square().mean())
        self.updates += 1
        return self.moments

    @property
    def moments(self) -> Moments:
        if not self.updates:
            return Moments(0.0, 0.0)
        seen = 1 - self.decay**self.updates
        mean = self.first / seen
        return Moments(mean, max(self.second / seen - mean**2, 0.0) ** 0.5)
