"""What the rewards of pairs say: accuracy, margin, and how far both follow length; of all pairs and of each subset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gapo.diagnostics.intervals import Numbers
from gapo.evaluate.quantity import Quantity, mean_of, share_of

Figures = dict[str, Quantity | None]
NO_SUBSET = "(none)"


@dataclass(frozen=True)
class PairRewards:
    """Columns of pairs. `gain`: reward of the chosen response minus reward of the rejected one; lengths in characters.

    Characters, as in AlpacaEval and in length noise: they do not depend on the model that is measured.
    """

    ids: tuple[str, ...]
    gain: Numbers
    chosen_characters: NDArray[np.int64]
    rejected_characters: NDArray[np.int64]
    subset: Sequence[str]
    prompt: Sequence[str]  # pairs of one prompt are not independent

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, places: NDArray[np.bool_]) -> PairRewards:
        """The pairs at the marked places."""
        at = np.flatnonzero(places).tolist()
        return PairRewards(
            tuple(self.ids[i] for i in at),
            self.gain[at],
            self.chosen_characters[at],
            self.rejected_characters[at],
            [self.subset[i] for i in at],
            [self.prompt[i] for i in at],
        )

    def right(self) -> Numbers:
        """1 where the chosen response has the larger reward, 1/2 for a tie."""
        return wins(self.gain)


def wins(gain: Numbers) -> Numbers:
    return (gain > 0) + 0.5 * (gain == 0)


def reward_figures(rewards: PairRewards) -> Figures:
    """Every figure of these pairs; None where no pair can tell.

    longer_wins: how often the longer response has the larger reward; chosen_longer: how often the label says so.
    accuracy_with_length, accuracy_against_length: on pairs whose chosen response is the longer, the shorter one.
    """
    longer = np.sign(rewards.chosen_characters - rewards.rejected_characters)
    differ, agree, disagree = longer != 0, longer > 0, longer < 0
    prompts, right = np.asarray(rewards.prompt), rewards.right()
    return {
        "accuracy": share_of(right, prompts),
        "margin": mean_of(rewards.gain, prompts),
        "longer_wins": share_of(wins(rewards.gain * longer)[differ], prompts[differ]),
        "chosen_longer": share_of(wins(longer.astype(np.float64))[differ], prompts[differ]),
        "accuracy_with_length": share_of(right[agree], prompts[agree]),
        "accuracy_against_length": share_of(right[disagree], prompts[disagree]),
    }


def by_subset(rewards: PairRewards) -> dict[str, Figures]:
    """The same for each subset, by name; nothing where no pair has one."""
    names = np.array([name or NO_SUBSET for name in rewards.subset])
    found = sorted(set(names.tolist()))
    if found in ([], [NO_SUBSET]):
        return {}
    return {name: reward_figures(rewards.take(names == name)) for name in found}
