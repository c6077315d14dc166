"""What an optimiser step must know before its own pass: references, anchors, and whatever spans micro-batches.

All micro-batches of a step share one theta, so everything that mixes pairs (an anchor, Dr.DPO's log-mean-exp, KTO's
drift, alpha-DPO's statistics) is computed here over the whole step. The result does not depend on how it is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from gapo.anchor.engines import AnchorSettings, Probe, gradient_norms, length_terms, probe, scaled_to_gap
from gapo.anchor.gap import margin_direction, parameters_in_scope
from gapo.model.logps import PairLogps
from gapo.model.policy import pair_logps
from gapo.objectives import Moments, Objective, Slopes, slopes
from gapo.pairs.collate import PairBatch


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


@dataclass(frozen=True)
class AnchorReport:
    """What the anchors of one step were like."""

    ratio: float | None
    direction_norm: float
    moved: float


@dataclass(frozen=True)
class MicroBatch:
    """One micro-batch with what its loss needs. Where `known` is set, the loss was taken over the whole step."""

    batch: PairBatch
    needs: dict[str, object]
    known: Slopes | None = None
    policy: PairLogps | None = None  # the log-probs `known` was taken at
    gap: Tensor | None = None


@dataclass(frozen=True)
class StepPlan:
    """Turns the micro-batches of a step into ones whose loss can be computed one at a time."""

    objective: Objective
    anchor: AnchorSettings
    reference: PairLogps | None = None
    moments: RunningMoments = field(default_factory=RunningMoments)

    @property
    def spans_the_step(self) -> bool:
        """Whether the loss must be taken over all pairs of the step at once."""
        return self.objective.coupled or self.objective.anchored or "moments" in self.objective.needs

    def prepare(
        self,
        model: nn.Module,
        batches: Sequence[PairBatch],
        rows: Sequence[Tensor],
        step: int,
        kl: Tensor | None = None,
    ) -> tuple[list[MicroBatch], AnchorReport | None]:
        """`rows` are the positions of each batch's pairs in the data set."""
        needs: list[dict[str, object]] = [{} for _ in batches]
        if self.reference is not None:
            for need, row, batch in zip(needs, rows, batches, strict=True):
                need["reference"] = self.reference[row.cpu()].to(batch.input_ids.device)
        if kl is not None:
            for need in needs:
                need["kl"] = kl
        report = None
        policy: PairLogps | None = None
        if self.objective.anchored:
            policy, report = self._anchors(model, batches, needs, step)
        if not self.spans_the_step:
            return [MicroBatch(batch, need) for batch, need in zip(batches, needs, strict=True)], None
        if policy is None:
            with torch.no_grad():
                policy = PairLogps.cat([pair_logps(model, batch) for batch in batches])
        if "moments" in self.objective.needs:
            reference = PairLogps.cat([need["reference"] for need in needs])  # type: ignore[misc]
            moments = self.moments.update(policy.margin - reference.margin)
            for need in needs:
                need["moments"] = moments
        return self._taken_together(batches, needs, policy), report

    def again(self, model: nn.Module, prepared: Sequence[MicroBatch]) -> list[MicroBatch]:
        """The same step at other parameters (SAM): anchors and statistics stay, the loss is taken anew."""
        if not self.spans_the_step:
            return list(prepared)
        batches, needs = [part.batch for part in prepared], [part.needs for part in prepared]
        with torch.no_grad():
            policy = PairLogps.cat([pair_logps(model, batch) for batch in batches])
        return self._taken_together(batches, needs, policy)

    def _taken_together(
        self, batches: Sequence[PairBatch], needs: Sequence[dict[str, object]], policy: PairLogps
    ) -> list[MicroBatch]:
        found = slopes(self.objective, policy, **_joined(needs))
        prepared, start = [], 0
        for batch, need in zip(batches, needs, strict=True):
            part = slice(start, start + len(batch))
            own = policy[part]
            anchor = need.get("anchor")
            gap = own.margin - anchor.margin if isinstance(anchor, PairLogps) else _stand_in(need)
            prepared.append(MicroBatch(batch, need, found[part], own, gap))
            start += len(batch)
        return prepared

    def _anchors(
        self, model: nn.Module, batches: Sequence[PairBatch], needs: Sequence[dict[str, object]], step: int
    ) -> tuple[PairLogps, AnchorReport]:
        """One anchor (or stand-in) for each group of K micro-batches."""
        policies, reports = [], []
        for start in range(0, len(batches), self.anchor.batches):
            group = slice(start, start + self.anchor.batches)
            if "anchor" in self.objective.needs:
                found = probe(model, batches[group], self.anchor, step)
                _hand_out(needs[group], batches[group], "anchor", found.anchor)
            else:
                found = self._stand_ins(model, batches[group], needs[group])
            policies.append(found.policy)
            reports.append(found)
        ratios = [found.ratio for found in reports if found.ratio is not None]
        report = AnchorReport(
            ratio=sum(ratios) / len(ratios) if ratios else None,
            direction_norm=sum(found.direction_norm for found in reports) / len(reports),
            moved=sum(found.moved for found in reports) / len(reports),
        )
        return PairLogps.cat(policies), report

    def _stand_ins(self, model: nn.Module, batches: Sequence[PairBatch], needs: Sequence[dict[str, object]]) -> Probe:
        """gradnorm and length_only: per-pair values with the mean the gap would have, and no anchor at all."""
        if "gradient_norm" in self.objective.needs:
            values, norm = gradient_norms(model, batches, self.anchor)
            with torch.no_grad():
                policy = PairLogps.cat([pair_logps(model, batch) for batch in batches])
            values, name = values.to(policy.chosen), "gradient_norm"
        else:
            direction, parts = margin_direction(model, batches, parameters_in_scope(model, self.anchor.scope))
            policy, norm = PairLogps.cat(parts), direction.norm
            values, name = length_terms(policy), "length_term"
        _hand_out(needs, batches, name, scaled_to_gap(values, norm, self.anchor.radius))
        return Probe(policy, policy, norm, 0.0, None)


def micro_batch_loss(objective: Objective, policy: PairLogps, part: MicroBatch, pairs: int) -> tuple[Tensor, Slopes]:
    """The micro-batch's share of the mean loss over the step's `pairs`, with the step's exact gradient.

    Value and gradient apart: the slopes say how the loss moves with each log-prob, `policy` how those move with theta.
    """
    found = part.known if part.known is not None else slopes(objective, policy, **part.needs)
    carrier = (found.chosen * policy.chosen + found.rejected * policy.rejected).sum() / pairs
    return found.loss.sum() / pairs + (carrier - carrier.detach()), found


@torch.no_grad()
def drift_on_mismatched(model: nn.Module, batches: Sequence[PairBatch], reference: PairLogps) -> Tensor:
    """KTO's z = max(0, mean (policy - reference) log-prob of responses that answer another prompt)."""
    policy = PairLogps.cat([pair_logps(model, batch) for batch in batches])
    gain = (policy.chosen - reference.chosen) + (policy.rejected - reference.rejected)
    return (gain.mean() / 2).clamp(min=0)


def _stand_in(need: dict[str, object]) -> Tensor | None:
    value = need.get("gradient_norm", need.get("length_term"))
    return value if isinstance(value, Tensor) else None


def _hand_out(
    needs: Sequence[dict[str, object]], batches: Sequence[PairBatch], name: str, values: PairLogps | Tensor
) -> None:
    start = 0
    for need, batch in zip(needs, batches, strict=True):
        need[name] = values[start : start + len(batch)]
        start += len(batch)


def _joined(needs: Sequence[dict[str, object]]) -> dict[str, object]:
    """The needs of all micro-batches as those of one."""
    joined: dict[str, object] = {}
    for name, first in needs[0].items():
        parts = [need[name] for need in needs]
        if isinstance(first, PairLogps):
            joined[name] = PairLogps.cat(parts)  # type: ignore[arg-type]
        elif isinstance(first, Tensor) and first.dim():
            joined[name] = torch.cat(parts)  # type: ignore[arg-type]
        else:
            joined[name] = first
    return joined
