"""KTO's drift: how much more likely than under the reference are replies that answer another prompt?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from gapo.model.logps import PairLogps
from gapo.model.passes import forward
from gapo.pairs.collate import Mismatched, PairBatch
from gapo.training.dataset import EncodedPairs

if TYPE_CHECKING:
    from gapo.training.trainer import PreferenceTrainer


class OtherReplies:
    """Every training prompt with another pair's responses, and their log-probs under the reference."""

    def __init__(self, trainer: PreferenceTrainer) -> None:
        self._trainer = trainer
        self.pairs = EncodedPairs(Mismatched(trainer.train_dataset.encoded, trainer.encoder.max_length))
        trainer.references.of(self.pairs)  # while the model is still the start model

    def drift(self, rows: list[Tensor]) -> Tensor:
        """z = max(0, mean (policy - reference) log-prob) over the step's pairs, at these rows of the data set."""
        trainer = self._trainer
        device = trainer.args.device
        reference = trainer.references.of(self.pairs)
        batches, parts = [], []
        for row in rows:
            inputs = trainer.data_collator([self.pairs[int(i)] for i in row])
            batches.append(PairBatch.of({name: value.to(device) for name, value in inputs.items()}))
            parts.append(reference[row.cpu()])
        policy = forward(trainer.model, batches, trainer.accelerator.autocast)
        there = PairLogps.cat(parts).to(device)
        gain = (policy.chosen - there.chosen) + (policy.rejected - there.rejected)
        if not trainer.ranks.alone:
            gain = trainer.ranks.gather(gain)
        return (gain.mean() / 2).clamp(min=0).to(device)
