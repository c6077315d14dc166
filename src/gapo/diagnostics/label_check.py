"""Would wrong labels be found in these data? Some are flipped on purpose, in memory, and looked for.

A flip turns a sketch's sign, so no further pass is needed. The data's own wrong labels count as right ones here,
which makes the check a little harder than the task itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gapo.consensus.peers import Groups, along_peers, peers
from gapo.diagnostics.ranking import area_under_roc

SHARE, DRAWS = 0.1, 5
STRONG, WEAK = 0.75, 0.6  # areas under the ROC curve


@dataclass(frozen=True)
class LabelCheck:
    """What finding a known share of flips came to: means over draws, and the least and greatest area of them."""

    share: float
    flips: int
    draws: int
    area: float
    low: float
    high: float
    precision: float
    """Of as many pairs as were flipped, those suspected most: how many were."""

    @property
    def verdict(self) -> str:
        """strong, weak, or none at all."""
        return "strong" if self.area >= STRONG else "weak" if self.area >= WEAK else "none"

    @property
    def words(self) -> str:
        """What it means, plainly."""
        found = (
            f"Of {self.flips:,} labels flipped on purpose {100 * self.precision:.0f} % are among the {self.flips:,} "
            f"suspected most (chance {100 * self.share:.0f} %); the area under the ROC curve is {self.area:.2f} "
            f"({self.low:.2f} to {self.high:.2f} over {self.draws} draws, chance 0.50)."
        )
        advice = {
            "strong": "That is enough to relabel from the top of the list.",
            "weak": "That is weak: look at the top of the list with your own eyes, and clean nothing unseen.",
            "none": "That is too weak to act on: here the order says next to nothing about single labels.",
        }
        return f"{found} {advice[self.verdict]}"


def label_check(
    sketches: Tensor,
    prompts: Tensor,
    share: float = SHARE,
    draws: int = DRAWS,
    seed: int = 0,
    groups: Groups | None = None,
) -> LabelCheck:
    """Flip this share of the labels, judge all of them anew, and see who is suspected."""
    flips = max(1, round(share * len(sketches)))
    ready = peers(sketches, groups=groups)
    areas, hits = [], []
    for draw in range(draws):
        chosen = np.random.default_rng([seed, draw]).choice(len(sketches), flips, replace=False)
        flipped = np.zeros(len(sketches), dtype=np.bool_)
        flipped[chosen] = True
        doubt = -along_peers(ready, prompts, sign=torch.from_numpy(np.where(flipped, -1.0, 1.0))).numpy()
        areas.append(area_under_roc(doubt, flipped))
        hits.append(float(flipped[np.argsort(-doubt, kind="stable")[:flips]].mean()))
    return LabelCheck(share, flips, draws, float(np.mean(areas)), min(areas), max(areas), float(np.mean(hits)))
