"""A step under watch: every pair's gradient is held against the direction of earlier pairs before it counts.

One gradient a pair is enough for all: its sketch says how likely the label is wrong, that sets its weight, and the
weighted gradients add up to the step's own. So a step costs SimPO's 3F and some sums; no pair's gradient is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gapo.anchor.bank import GradientBank
from gapo.anchor.fill import in_turn, pairs_at_once
from gapo.consensus.mixture import Mixture
from gapo.consensus.scope import FULL, judging_parameters
from gapo.consensus.sketch import Signs
from gapo.consensus.window import Window
from gapo.model.logps import PairLogps
from gapo.model.passes import Precision
from gapo.model.ranks import ALONE, Ranks
from gapo.pairs.collate import PairBatch

Weigh = Callable[[Tensor, PairLogps, Tensor], Tensor]
"""Places in the step, log-probs there, how likely each label is wrong -> coefficients in the step's gradient."""


@dataclass(frozen=True)
class Watched:
    """Of a step's pairs: log-probs, alignment with the others, the probability of a wrong label; and the gradient."""

    policy: PairLogps
    alignment: Tensor
    wrong: Tensor
    gradient: list[Tensor]


class Watch:
    """The direction of a run's pairs, and the pass that judges a step by it."""

    def __init__(self, scope: str = FULL, precision: Precision = nullcontext, ranks: Ranks = ALONE) -> None:
        self.scope, self.precision, self.ranks = scope, precision, ranks
        self.window = Window()
        self._signs: Signs | None = None

    def step(self, model: nn.Module, batches: Sequence[PairBatch], prompts: Tensor, weigh: Weigh) -> Watched:
        """Judge the pairs by earlier steps, add up their weighted gradients, then take them in."""
        trained = tuple(p for p in model.parameters() if p.requires_grad)
        judging = judging_parameters(model, self.scope)
        if self._signs is None:
            self._signs = Signs.of(judging)
        signs = self._signs
        bank, gradient = GradientBank(trained), [torch.zeros_like(p) for p in trained]
        nothing = torch.empty(0, dtype=torch.float64)
        none_yet = (torch.empty(0, dtype=torch.long), PairLogps.none(), torch.empty(0, signs.size), nothing, nothing)
        seen: list[tuple[Tensor, PairLogps, Tensor, Tensor, Tensor]] = [none_yet]  # a rank may have no pair
        for places, policy in in_turn(bank, model, batches, self.precision, at_once=pairs_at_once(model)):
            sketch = signs.sketch(bank.parts(judging), len(places))
            alignment = self.window.alignments(sketch, prompts[places])
            wrong = self.window.wrong(alignment)
            bank.add_weighted(weigh(places, policy, wrong.to(policy.chosen.device)), gradient)
            seen.append((places, policy, sketch, alignment, wrong))
        for part in gradient:
            self.ranks.sum(part)
        back = torch.argsort(torch.cat([one[0] for one in seen]))
        policy = PairLogps.cat([one[1] for one in seen])[back.to(gradient[0].device)]
        sketches, alignment, wrong = (torch.cat([one[k] for one in seen])[back] for k in (2, 3, 4))  # type: ignore[misc]
        self.window.add(self.ranks.gather(sketches), self.ranks.gather(prompts))
        return Watched(policy, alignment, wrong, gradient)

    def state(self) -> dict[str, Any]:
        """The mixture, for a checkpoint; the window's tensors have a file of their own."""
        mixture = self.window.mixture
        return {"mixture": asdict(mixture) if mixture is not None else None}

    def load_state(self, state: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self.window.load(tensors)
        self.window.mixture = Mixture.of(state["mixture"]) if state.get("mixture") else None
