"""How far the policy has moved from where it started: KL per response token on a few fixed pairs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gapo.model.head import head_of
from gapo.model.policy import causal_lm, last_hidden
from gapo.pairs.collate import collate
from gapo.pairs.encode import EncodedPair

TOP = 256  # tokens of the start model's distribution that are kept apart; the rest counts as one


class DriftProbe:
    """mean KL(start || policy) over response positions.

    The start model is not kept: its TOP most likely tokens at each position are, and the remaining mass as one
    outcome. Merging outcomes can only lower a KL divergence, so this is a tight lower bound, and exact for
    vocabularies up to TOP tokens.
    """

    def __init__(self, model: nn.Module, pairs: Sequence[EncodedPair], pad_id: int) -> None:
        device = next(model.parameters()).device
        self._batch = collate(pairs, pad_id).to(device)
        with torch.inference_mode():
            start = self._logps(model)
            self._top = start.topk(min(TOP, start.shape[1]), dim=1).indices
            self._start = self._coarse(start)

    def measure(self, model: nn.Module) -> float:
        """KL per response token now, in nats."""
        with torch.inference_mode():
            now = self._coarse(self._logps(model))
            terms = self._start.exp() * (self._start - now)
            return float(terms.nan_to_num().sum(1).mean())  # 0 * log 0 is 0

    def _logps(self, model: nn.Module) -> Tensor:
        was_training = model.training
        model.eval()
        try:
            hidden = last_hidden(model, self._batch.input_ids, self._batch.attention_mask)
            rows, positions = self._batch.response_mask[:, 1:].nonzero(as_tuple=True)
            return head_of(causal_lm(model)).logits(hidden[rows, positions]).log_softmax(1)
        finally:
            model.train(was_training)

    def _coarse(self, logps: Tensor) -> Tensor:
        """Log-probs of the kept tokens, and of all others together."""
        kept = logps.gather(1, self._top)
        if kept.shape[1] == logps.shape[1]:
            return kept
        rest = torch.log1p(-kept.double().exp().sum(1, keepdim=True).clamp(max=1 - 1e-12)).to(kept.dtype)
        return torch.cat([kept, rest], dim=1)
