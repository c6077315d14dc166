"""The running direction of a training run: the sketches of the pairs seen last, and the mixture of their alignments.

A pair is judged by pairs of earlier steps alone, never by itself or its prompt. How far back they may lie is found from
the data: old gradients are those of an older model, but a direction of more pairs is the truer one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from gapo.consensus.direction import along, along_others, evened, units
from gapo.consensus.mixture import Mixture, fit

LONGEST = 8192  # pairs: 134 MB of sketches
SHORTEST = 64  # a direction of fewer pairs is mostly chance
DECAY = 0.9  # of what is remembered of a length's merit, a step


@dataclass
class Window:
    """Unit sketches in the order they came, with the prompts they belong to."""

    rows: Tensor = field(default_factory=lambda: torch.empty(0, 0))
    prompts: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long))
    mixture: Mixture | None = None
    merits: dict[int, float] = field(default_factory=dict)  # of window lengths: mean alignment over its spread
    longest: int = LONGEST

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def length(self) -> int:
        """The number of pairs that lead: the longest, unless a shorter one proved better on the pairs that came."""
        known = {size: merit for size, merit in self.merits.items() if size < len(self)}
        known[len(self)] = self.merits.get(len(self), self.merits.get(0, float("-inf")))
        return max(known, key=lambda size: (known[size], size)) if known else len(self)

    def alignments(self, sketches: Tensor, prompts: Tensor, length: int | None = None) -> Tensor:
        """a_i of new pairs along the last so many."""
        length = min(len(self), length if length is not None else self.length)
        if not length:
            return torch.zeros(len(sketches), dtype=torch.float64)
        rows, names = self.rows[-length:], self.prompts[-length:]
        size = rows.square().mean(0).sqrt().clamp_min(torch.finfo(rows.dtype).tiny)
        rows, same = units(rows / size), (prompts[:, None] == names[None, :]).to(rows)
        return along(units(units(sketches) / size), rows.sum(0, dtype=torch.float64), same @ rows)

    def wrong(self, alignments: Tensor) -> Tensor:
        """The probability that each label is wrong; 0 while the direction is young."""
        if self.mixture is None:
            return torch.zeros_like(alignments)
        return torch.from_numpy(self.mixture.wrong(alignments.numpy()))

    def add(self, sketches: Tensor, prompts: Tensor) -> None:
        """The pairs of a step, after it: judge the lengths by them, take them in, fit the mixture anew."""
        self._judge(sketches, prompts)
        new = units(sketches)
        self.rows = torch.cat([self.rows, new])[-self.longest :] if len(self.rows) else new[-self.longest :]
        self.prompts = torch.cat([self.prompts, prompts])[-self.longest :]
        length = self.length
        if length >= SHORTEST:
            found = along_others(evened(self.rows[-length:]), self.prompts[-length:]).numpy()
            mixture = fit(found, start=self.mixture)
            self.mixture = mixture if _told(found) else None

    def _judge(self, sketches: Tensor, prompts: Tensor) -> None:
        """A length is good where new pairs agree with its direction: their mean alignment over its spread."""
        sizes = [size for size in _lengths() if size < len(self)]
        for size in [*sizes, 0]:
            found = self.alignments(sketches, prompts, size or len(self))
            spread = float(found.std(correction=0))
            merit = float(found.mean()) / spread if spread > 0 else 0.0
            before = self.merits.get(size)
            self.merits[size] = merit if before is None else DECAY * before + (1 - DECAY) * merit

    def state(self) -> dict[str, Tensor]:
        """For checkpoints, beside the mixture."""
        sizes = sorted(self.merits)
        return {
            "rows": self.rows,
            "prompts": self.prompts,
            "sizes": torch.tensor(sizes, dtype=torch.long),
            "merits": torch.tensor([self.merits[size] for size in sizes], dtype=torch.float64),
        }

    def load(self, state: dict[str, Tensor]) -> None:
        """What `state` gave."""
        self.rows, self.prompts = state["rows"], state["prompts"]
        self.merits = dict(zip(state["sizes"].tolist(), state["merits"].tolist(), strict=True))


def _lengths() -> list[int]:
    return [SHORTEST * 2**k for k in range(8)]


def _told(alignments: np.ndarray) -> bool:
    """Whether there is a direction at all: the mean alignment lies three standard errors above 0."""
    return bool(alignments.mean() > 3 * alignments.std() / np.sqrt(len(alignments)))
