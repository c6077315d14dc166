"""The two forwards whose difference is the gap, and the precision they need.

Gradients may be computed in bf16. A gap is a small difference: casting moved weights to bf16 dithers the move, and the
gap with it. So both forwards stay in fp32 until an audit finds that bf16 measures the same.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gapo.anchor.gap import Direction, self_check_ratio
from gapo.model.logps import PairLogps
from gapo.model.passes import Precision, forward
from gapo.model.perturb import displaced
from gapo.model.ranks import ALONE, Ranks
from gapo.pairs.collate import PairBatch

logger = logging.getLogger("gapo")
AUDIT_EVERY = 50  # steps
SAFE_RATIO = 0.1  # how far bf16's self-check ratio may lie from fp32's, as a share of it
SAFE_CORRELATION = 0.99


@dataclass
class GapForwards:
    """`precision` is that of the passes with a gradient; `mixed` says that it is not the weights' own."""

    precision: Precision = nullcontext
    mixed: bool = False
    safe: bool = False  # bf16 was found to measure the gap
    ranks: Ranks = ALONE  # who judges together

    def __call__(
        self,
        model: nn.Module,
        batches: Sequence[PairBatch],
        policy: PairLogps,
        direction: Direction,
        radius: float,
        *,
        audit: bool = False,
    ) -> tuple[PairLogps, PairLogps, float]:
        """Log-probs at theta and at the anchor in one precision, and how far away the anchor really was.

        `policy` are log-probs at theta met on the way to the direction, in the precision of gradients. The direction's
        memory is used up.
        """
        audit = audit and self.mixed
        low = self.mixed and self.safe and not audit
        home = policy if low or not self.mixed else forward(model, batches)
        move = displaced(direction.parameters, direction.gradient, -radius, consume=True)
        with move as moved:
            anchor = forward(model, batches, self.precision if low else nullcontext)
            low_anchor = forward(model, batches, self.precision) if audit else None
        if low_anchor is not None:
            self._judge(home.margin - anchor.margin, policy.margin - low_anchor.margin, direction.norm, radius)
        return home, anchor, moved

    def _judge(self, gap: Tensor, low_gap: Tensor, norm: float, radius: float) -> None:
        gap, low_gap = self.ranks.gather(gap), self.ranks.gather(low_gap)
        norm = self.ranks.sum_of(norm) / self.ranks.total  # one for all, unless each rank has a direction of its own
        exact, low = self_check_ratio(gap, norm, radius), self_check_ratio(low_gap, norm, radius)
        agreement = correlation(gap, low_gap)
        was = self.safe
        close = exact is not None and low is not None and abs(low - exact) <= SAFE_RATIO * abs(exact)
        self.safe = close and agreement >= SAFE_CORRELATION
        if self.safe != was:
            logger.info(
                "the gap is measured in %s from here: self-check ratio %.2f in bf16, %.2f in fp32, correlation %.3f",
                "bf16" if self.safe else "fp32",
                low if low is not None else float("nan"),
                exact if exact is not None else float("nan"),
                agreement,
            )


def correlation(one: Tensor, other: Tensor) -> float:
    """Pearson's, in float64; NaN where one of them does not vary."""
    both = torch.stack([one.cpu(), other.cpu()]).double()
    both = both - both.mean(1, keepdim=True)
    length = float(both.norm(dim=1).prod())
    return float(both[0] @ both[1]) / length if length > 0 else float("nan")
