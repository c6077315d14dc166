"""What an optimiser step must know before its own pass: references, anchors, and whatever spans micro-batches.

All micro-batches of a step share one theta, so everything that mixes pairs (an anchor, Dr.DPO's log-mean-exp, KTO's
drift, alpha-DPO's statistics) is computed here over the whole step. The result does not depend on how it is cut, into
micro-batches or among processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from gapo.anchor.engine import Engine
from gapo.anchor.forwards import correlation
from gapo.anchor.probe import Geometry, Probe
from gapo.anchor.stand_ins import length_terms, scaled_to_gap
from gapo.consensus.judging import Judgement
from gapo.consensus.mixture import Mixture
from gapo.consensus.watch import Watch
from gapo.model.logps import PairLogps
from gapo.model.passes import Backward, Precision, backward, forward
from gapo.model.ranks import ALONE, Ranks
from gapo.objectives import Objective, Slopes, slopes
from gapo.pairs.collate import PairBatch
from gapo.training.moments import RunningMoments
from gapo.training.needs import Needs, at_places, hand_out, joined_needs


@dataclass(frozen=True)
class AnchorReport:
    """What the anchors of one step were like, and how an engine that audits itself did."""

    ratio: float | None
    direction_norm: float
    moved: float
    audit_correlation: float | None = None  # of the engine's gaps with the exact ones
    audit_cosine: float | None = None  # of the step's gradient by either


@dataclass(frozen=True)
class MicroBatch:
    """One micro-batch with what its loss needs. Where `known` is set, the loss was taken over the whole step."""

    batch: PairBatch
    needs: Needs
    known: Slopes | None = None
    policy: PairLogps | None = None  # the log-probs `known` was taken at
    gap: Tensor | None = None
    geometry: Geometry | None = None
    alignment: Tensor | None = None  # with the direction of other pairs

    def chunk(self, places: Tensor) -> tuple[Needs, Slopes | None]:
        """What the loss of these pairs needs, or what is known of it."""
        if self.known is not None:
            return {}, self.known[places.to(self.known.loss.device)]
        return {name: at_places(value, places) for name, value in self.needs.items()}, None


@dataclass(frozen=True)
class PreparedStep:
    """The micro-batches of a step; the step's gradient too where the engine has it already."""

    parts: list[MicroBatch]
    report: AnchorReport | None = None
    gradient: list[Tensor] | None = None

    def give_gradient(self, model: nn.Module) -> bool:
        """Put the step's gradient where the optimiser looks for it, if it is known; whether it is."""
        if self.gradient is not None:
            trained = (p for p in model.parameters() if p.requires_grad)
            for parameter, gradient in zip(trained, self.gradient, strict=True):
                parameter.grad = gradient
        return self.gradient is not None


@dataclass(frozen=True)
class StepPlan:
    """Turns the micro-batches of a step into ones whose loss can be computed one at a time."""

    objective: Objective
    engine: Engine | None = None
    reference: PairLogps | None = None
    moments: RunningMoments = field(default_factory=RunningMoments)
    precision: Precision = nullcontext
    ranks: Ranks = ALONE
    judgement: Judgement | None = None  # of the labels, before the first step
    watch: Watch | None = None  # or as the run goes

    @property
    def mixture(self) -> Mixture | None:
        """Of right and wrong labels, as far as it is known."""
        if self.judgement is not None:
            return self.judgement.mixture
        return self.watch.window.mixture if self.watch is not None else None

    @property
    def spans_the_step(self) -> bool:
        """Whether the loss must be taken over all pairs of the step at once."""
        return (
            self.objective.coupled
            or self.objective.anchored
            or self.watch is not None
            or "moments" in self.objective.needs
        )

    def prepare(
        self,
        model: nn.Module,
        batches: Sequence[PairBatch],
        rows: Sequence[Tensor],
        step: int,
        kl: Tensor | None = None,
        prompts: Tensor | None = None,
    ) -> PreparedStep:
        """`rows` are the positions of each batch's pairs in the data set, `prompts` a number for each pair's prompt."""
        needs: list[Needs] = [{} for _ in batches]
        if self.reference is not None:
            for need, row, batch in zip(needs, rows, batches, strict=True):
                need["reference"] = self.reference[row.cpu()].to(batch.input_ids.device)
        if kl is not None:
            for need in needs:
                need["kl"] = kl
        alignment = None
        if self.judgement is not None:
            places = torch.cat([row.cpu() for row in rows])
            alignment = self.judgement.alignment[places]
            hand_out(needs, batches, "wrong", self.judgement.wrong[places].to(batches[0].input_ids.device))
        if not self.spans_the_step:
            return PreparedStep(_cut(batches, needs, alignment))
        if self.watch is not None:
            assert prompts is not None
            return self._watched(model, batches, needs, prompts)
        probe = self._probed(model, batches, needs, step) if self.objective.anchored else None
        policy = probe.policy if probe is not None else forward(model, batches, self.precision)
        if "moments" in self.objective.needs:
            reference = PairLogps.cat([need["reference"] for need in needs])  # type: ignore[misc]
            moments = self.moments.update(self.ranks.gather(policy.margin - reference.margin))
            for need in needs:
                need["moments"] = moments
        found = self._slopes(policy, joined_needs(needs))
        parts = _handed_back(batches, needs, policy, found, probe.geometry if probe is not None else None, alignment)
        if probe is None:
            return PreparedStep(parts)
        gradient = probe.gradient
        if probe.bank is not None:
            gradient = probe.bank.weighted(-found.weight / self.ranks.count(len(policy)), self.ranks)
        return PreparedStep(parts, self._report(probe, found, joined_needs(needs)), gradient)

    def again(self, model: nn.Module, prepared: Sequence[MicroBatch]) -> list[MicroBatch]:
        """The same step at other parameters (SAM): anchors and statistics stay, the loss is taken anew."""
        if not self.spans_the_step:
            return list(prepared)
        batches, needs = [part.batch for part in prepared], [part.needs for part in prepared]
        policy = forward(model, batches, self.precision)
        return _handed_back(batches, needs, policy, self._slopes(policy, joined_needs(needs)), None)

    def _slopes(self, policy: PairLogps, needs: Needs) -> Slopes:
        """Of this rank's pairs; a loss that mixes pairs is taken over those of all ranks."""
        if self.ranks.alone or not self.objective.coupled:
            return slopes(self.objective, policy, **needs)
        own = self.ranks.own(len(policy))
        everyone = {name: self._gathered(value) for name, value in needs.items()}
        return slopes(self.objective, self.ranks.gather_logps(policy), **everyone)[own]

    def _gathered(self, value: object) -> object:
        """What is given for each pair, for the pairs of all ranks; what is one for all as it is."""
        if isinstance(value, PairLogps):
            return self.ranks.gather_logps(value)
        return self.ranks.gather(value).to(value.device) if isinstance(value, Tensor) and value.dim() else value

    def _probed(self, model: nn.Module, batches: Sequence[PairBatch], needs: Sequence[Needs], step: int) -> Probe:
        """An anchor (or its stand-in) for each group of micro-batches, written into the needs."""
        assert self.engine is not None
        if "anchor" in self.objective.needs:
            known = joined_needs(needs)

            def weigh(places: slice, policy: PairLogps, anchor: PairLogps) -> Tensor:
                own = {name: at_places(value, places) for name, value in known.items()}
                return -slopes(self.objective, policy, anchor=anchor, **own).weight / pairs

            pairs = self.ranks.count(sum(len(batch) for batch in batches))
            probe = self.engine.anchors(model, batches, step, weigh)
            hand_out(needs, batches, "anchor", probe.anchor)
            return probe
        if "gradient_norm" in self.objective.needs:
            probe, name = self.engine.norms(model, batches), "gradient_norm"
            assert probe.geometry is not None
            values = probe.geometry.grad_norm.to(probe.policy.chosen)
        else:
            probe, name = self.engine.directions(model, batches), "length_term"
            values = length_terms(probe.policy)
        radius = self.engine.settings.radius
        scaled = [
            scaled_to_gap(values[places], group.direction_norm, radius, self.engine.together)
            for (places, _), group in zip(self.engine.groups(batches), probe.groups, strict=True)
        ]
        hand_out(needs, batches, name, torch.cat(scaled))
        return probe

    def _watched(
        self, model: nn.Module, batches: Sequence[PairBatch], needs: Sequence[Needs], prompts: Tensor
    ) -> PreparedStep:
        """The pairs judged by the direction of earlier ones; the step's gradient comes with it."""
        assert self.watch is not None
        known, pairs = joined_needs(needs), self.ranks.count(len(prompts))

        def weigh(places: Tensor, policy: PairLogps, wrong: Tensor) -> Tensor:
            own = {name: at_places(value, places) for name, value in known.items()}
            return -slopes(self.objective, policy, wrong=wrong, **own).weight / pairs

        found = self.watch.step(model, batches, prompts, weigh)
        hand_out(needs, batches, "wrong", found.wrong.to(found.policy.chosen.device))
        taken = self._slopes(found.policy, joined_needs(needs))
        parts = _handed_back(batches, needs, found.policy, taken, None, found.alignment)
        return PreparedStep(parts, None, found.gradient)

    def _report(self, probe: Probe, found: Slopes, needs: Needs) -> AnchorReport:
        agreement = cosine = None
        if probe.estimate is not None and probe.bank is not None:
            estimate = probe.policy.margin - probe.estimate.margin
            agreement = correlation(self.ranks.gather(probe.gap), self.ranks.gather(estimate))
            estimated = slopes(self.objective, probe.policy, **{**needs, "anchor": probe.estimate})
            cosine = probe.bank.cosine(found.weight, estimated.weight, self.ranks)
        if self.engine is None or self.engine.together is self.ranks:
            return AnchorReport(probe.ratio, probe.direction_norm, probe.moved, agreement, cosine)
        every = self.ranks.gather_objects(probe.summary)  # each rank had anchors of its own
        ratios = [ratio for ratio, _, _ in every if ratio is not None]
        norm, moved = (sum(numbers[k] for numbers in every) / len(every) for k in (1, 2))  # type: ignore[misc]
        return AnchorReport(sum(ratios) / len(ratios) if ratios else None, norm, moved, agreement, cosine)


def micro_batch_backward(
    model: nn.Module,
    objective: Objective,
    part: MicroBatch,
    pairs: int,
    precision: Precision = nullcontext,
    run: Backward = Tensor.backward,
) -> tuple[Slopes, PairLogps]:
    """Backward of what the micro-batch adds to the mean loss over the step's `pairs`; its losses and log-probs.

    The slopes say how the loss moves with each log-prob, the model how those move with theta.
    """
    found: list[Slopes] = []
    order: list[Tensor] = []

    def share(policy: PairLogps, places: Tensor) -> Tensor:
        needs, known = part.chunk(places)
        found.append(known if known is not None else slopes(objective, policy, **needs))
        order.append(places)
        return (found[-1].chosen * policy.chosen + found[-1].rejected * policy.rejected).sum() / pairs

    policy = backward(model, [part.batch], share, precision, run)
    if not found:  # other ranks have this micro-batch
        return slopes(objective, policy, **part.needs) if part.known is None else part.known, policy
    return Slopes.cat(found)[torch.argsort(torch.cat(order)).to(policy.chosen.device)], policy


def _handed_back(
    batches: Sequence[PairBatch],
    needs: Sequence[Needs],
    policy: PairLogps,
    found: Slopes,
    geometry: Geometry | None,
    alignment: Tensor | None = None,
) -> list[MicroBatch]:
    """What was taken over the whole step, cut into its micro-batches."""
    prepared, start = [], 0
    for batch, need in zip(batches, needs, strict=True):
        part = slice(start, start + len(batch))
        own = policy[part]
        anchor = need.get("anchor")
        gap = own.margin - anchor.margin if isinstance(anchor, PairLogps) else _stand_in(need)
        lies = geometry[part] if geometry else None
        along = alignment[part] if alignment is not None else None
        prepared.append(MicroBatch(batch, need, found[part], own, gap, lies, along))
        start += len(batch)
    return prepared


def _cut(batches: Sequence[PairBatch], needs: Sequence[Needs], alignment: Tensor | None) -> list[MicroBatch]:
    """Micro-batches whose losses need nothing of each other."""
    sizes = [len(batch) for batch in batches]
    along = alignment.split(sizes) if alignment is not None else [None] * len(sizes)
    return [MicroBatch(batch, need, alignment=own) for batch, need, own in zip(batches, needs, along, strict=True)]


def _stand_in(need: Needs) -> Tensor | None:
    value = need.get("gradient_norm", need.get("length_term"))
    return value if isinstance(value, Tensor) else None
