"""Log-probs under the reference for every data set of a run, each computed once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

from gapo.errors import InputError
from gapo.model.logps import PairLogps
from gapo.model.reference import has_start_model, reference_logps
from gapo.training.dataset import EncodedPairs

if TYPE_CHECKING:
    from gapo.training.trainer import PreferenceTrainer


class References:
    """The reference is a model of its own, the policy with its adapters off, or the policy before it moves."""

    def __init__(self, trainer: PreferenceTrainer, model: nn.Module | None) -> None:
        self._trainer = trainer
        self._model = model
        self._found: dict[int, tuple[EncodedPairs, PairLogps]] = {}  # the set is kept, so that its id stays its own

    def of(self, pairs: EncodedPairs) -> PairLogps:
        """Log-probs of these pairs, in their order."""
        if id(pairs) not in self._found:
            self._found[id(pairs)] = (pairs, self._computed(pairs))
        return self._found[id(pairs)][1]

    def of_sets(self, sets: Any) -> None:
        """Take those of some sets, or of one, while the model is still the start model."""
        for pairs in sets.values() if isinstance(sets, dict) else [sets]:
            if pairs is not None:
                self.of(pairs)

    def start(self, pairs: EncodedPairs) -> PairLogps | None:
        """Log-probs under the policy as it begins, where that is the reference: runs that begin alike share them.

        None for adapters, which need not begin as their model without them, and beside a reference of its own.
        """
        alone = self._model is None and not hasattr(self._trainer.model, "disable_adapter")
        return self.of(pairs) if alone and not self._trainer.state.global_step else None

    def _computed(self, pairs: EncodedPairs) -> PairLogps:
        trainer = self._trainer
        has_start = self._model is not None or has_start_model(trainer.model)
        if trainer.state.global_step > 0 and not has_start:
            raise InputError(
                f"{trainer.objective.name} compares with the start model, which training has moved; give ref_model, "
                "or pass this data set as eval_dataset before training"
            )
        model = trainer.model if self._model is None else self._model.to(trainer.args.device)
        found = reference_logps(
            model,
            pairs.encoded,
            trainer.pad_id,
            cache=trainer.args.cache_reference,
            progress=trainer.books.progress("reference log-probs"),
            precision=trainer.accelerator.autocast,  # as the policy's: rounding must not look like a difference
            precision_name=str(trainer.accelerator.mixed_precision),
            shared=trainer.layout.shared,
            ranks=trainer.ranks,
        )
        if self._model is not None:
            self._model.to("cpu")  # its work is done
        return found
