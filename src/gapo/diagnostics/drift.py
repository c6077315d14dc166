"""How far a trained model is from where it started."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from gapo.pairs.encode import EncodedPair
from gapo.training.drift import DriftProbe


def drift_between(start: nn.Module, model: nn.Module, pairs: Sequence[EncodedPair], pad_id: int) -> float:
    """mean KL(start || model) in nats over the response tokens of these pairs, which neither has to have seen.

    Exact for vocabularies up to 256 tokens, a tight lower bound above. The other direction is the other order.
    """
    return DriftProbe(start, pairs, pad_id).measure(model)
