"""How well a run's model tells pairs apart that it has not seen: its own reward, by subset. It loads torch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from gapo.evaluate.reward import LIKELIHOOD, pair_rewards, subject_logps
from gapo.evaluate.subject import Subject
from gapo.objectives import get_objective
from gapo.pairs.formats import load_pairs
from gapo.runs.data import up_to
from gapo.studies.held_out import encoder_of, model_of, start_of
from gapo.studies.items import BY_ITEM, written
from gapo.studies.rows import Rows
from gapo.studies.store import StoredRun
from gapo.training.dataset import EncodedPairs, encoded_pairs

if TYPE_CHECKING:
    from gapo.model.logps import PairLogps
    from gapo.pairs.pair import PairSet

ALL = "all"


@dataclass(frozen=True)
class Examined:
    """The model of a run beside the one it began with."""

    run: StoredRun

    @cached_property
    def subject(self) -> Subject:
        policy = model_of(self.run)
        return Subject(policy.model.eval(), policy.tokenizer, str(self.run.recipe["model"]["name"]))  # type: ignore[arg-type]

    @cached_property
    def start(self) -> Subject:
        policy = start_of(self.run)
        return Subject(policy.model.eval(), policy.tokenizer, str(self.run.recipe["model"]["name"]))  # type: ignore[arg-type]

    def accuracies(self, source: str, longest: int | None = None) -> Rows:
        """A row for all pairs and one for each subset: accuracy of the method's own reward, and by likelihood.

        Of a model that is not trained only the likelihood: above itself it has no reward. The start model's log-probs
        are computed once for all runs. The row of all pairs also says how each came out.
        """
        pairs = load_pairs(source)
        found = encoded_pairs(up_to(pairs, longest) if longest else pairs, encoder_of(self.run, self.subject.tokenizer))
        trained = bool(self.run.evals)
        policy = subject_logps(self.subject, found) if trained else self._at_the_start(found)
        rights = {"likelihood_accuracy": pair_rewards(found, LIKELIHOOD, policy, None).right()}
        if trained:
            reward = get_objective(self.run.recipe["objective"]["name"]).reward
            start = self._at_the_start(found) if reward.relative else None
            rights["accuracy"] = pair_rewards(found, reward, policy, start).right()
        subsets = [pair.subset or "" for pair in _pairs_of(found.pairs)]
        parts = {ALL: list(range(len(subsets))), **{name: [] for name in sorted(set(subsets) - {""})}}
        for place, name in enumerate(subsets):
            if name:
                parts[name].append(place)
        rows: Rows = [
            {
                "what": "accuracy",
                "set": source,
                "subset": name,
                "pairs": len(places),
                **{key: float(right[places].mean()) for key, right in rights.items()},
            }
            for name, places in parts.items()
        ]
        rows[0] |= {f"{key}{BY_ITEM}": written(right) for key, right in rights.items()}
        return rows

    def _at_the_start(self, found: EncodedPairs) -> PairLogps:
        return subject_logps(self.start, found, kept=True)


def _pairs_of(pairs: PairSet | None) -> PairSet:
    assert pairs is not None
    return pairs
