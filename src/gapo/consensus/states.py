"""A pair as one forward tells it: a third of a gradient's cost, and with SmolLM2 as good a judge or better (LOG.md).

To be judged a pair needs a vector that changes sign with its label. Two of them lie beside the log-probs. With h_t^k
the hidden state of layer k where token t is predicted, h_t the last one, and p_t what the model expects there:

    states     d_k = mean over y_w of h_t^k - mean over y_l of h_t^k,    every layer with length 1
    surprises  mean over y_w of (onehot(t) - p_t) (x) h_t - mean over y_l of the same

States are the gradient of a reward that is linear in them, surprises that of the margin by the weights of the head. The
vocabulary of the latter is cut down to `WORDS` random sums of its signs. Both go into one sketch with equal lengths.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gapo.consensus.direction import units
from gapo.consensus.sketch import SEED, Signs
from gapo.model.head import head_of
from gapo.model.policy import causal_lm, every_hidden
from gapo.model.sharding import as_forward
from gapo.pairs.collate import PairBatch

WORDS = 64


class StateSketches:
    """Sketches of a batch's pairs from one forward. Random signs are drawn once, the same for all runs."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        draw = torch.Generator().manual_seed(SEED)
        vocabulary = head_of(causal_lm(model)).vocabulary
        device = next(model.parameters()).device
        self._words = (torch.randint(0, 2, (vocabulary, WORDS), generator=draw) * 2.0 - 1.0).to(device)
        self._signs: Signs | None = None

    def __call__(self, batch: PairBatch) -> Float[Tensor, "pairs buckets"]:
        both = as_forward(self.model, _states_and_surprises)(batch, self._words)
        if self._signs is None:
            self._signs = Signs([part.shape[1] for part in both], device=both[0].device)
        parts = [[(k, slice(0, part.shape[1]), part)] for k, part in enumerate(both)]
        states, surprises = (units(self._signs.sketch(part, len(batch))) for part in parts)
        return states + surprises


def _states_and_surprises(model: nn.Module, batch: PairBatch, words: Tensor) -> tuple[Tensor, Tensor]:
    """Of every pair `[pairs, layers * hidden]` and `[pairs, words * hidden]`."""
    layers = [layer.flatten(0, 1) for layer in every_hidden(model, batch)]
    exact = torch.promote_types(layers[0].dtype, torch.float32)
    rows, positions, ids, owners = batch.response_tokens()
    places, pair = rows * batch.input_ids.shape[1] + positions, owners % len(batch)
    sign = torch.where(owners < len(batch), 1.0, -1.0).to(exact)
    share = sign / batch.response_counts()[owners]  # 1/|y_w| of a chosen token, -1/|y_l| of a rejected one
    means = share.new_zeros(len(batch), len(layers[0])).index_put_((pair, places), share, accumulate=True)
    states = torch.cat([units(means @ layer.to(exact)) for layer in layers], dim=1)
    last = layers[-1][places]
    surprises = head_of(causal_lm(model)).surprises(last, ids, words.to(exact)) * share[:, None]
    last = last.to(exact)
    own = [(surprises[pair == k].T @ last[pair == k]).flatten() for k in range(len(batch))]
    return states, torch.stack(own)
