"""How far the policy has moved from where it started: KL per response token on a few fixed pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from gapo.model.head import CHUNK_ENTRIES, head_of
from gapo.model.policy import causal_lm, last_hidden
from gapo.pairs.collate import collate
from gapo.pairs.encode import EncodedPair

PAIRS_AT_ONCE = 8
TOP = 256  # tokens of the start model's distribution that are kept apart; the rest counts as one


class DriftProbe:
    """mean KL(start || policy) over response positions.

    The start model is not kept: its TOP most likely tokens at each position are, and the remaining mass as one
    outcome. Merging outcomes can only lower a KL divergence, so this is a tight lower bound, and exact for
    vocabularies up to TOP tokens.
    """

    def __init__(
        self, model: nn.Module, pairs: Sequence[EncodedPair], pad_id: int, state: Mapping[str, Tensor] | None = None
    ) -> None:
        """`model` is the start model, unless `state` says what it was."""
        self._pairs, self._pad_id = pairs, pad_id
        self._top: list[Tensor] = []
        self._start: list[Tensor] = []
        if state is not None:
            device = next(model.parameters()).device
            for i in range(len(state) // 2):
                self._top.append(state[f"top.{i}"].to(device, torch.int64))
                self._start.append(state[f"start.{i}"].to(device))
            return
        with torch.inference_mode():
            for logps in self._logps(model):
                self._top.append(logps.topk(min(TOP, logps.shape[1]), dim=1).indices)
                self._start.append(_coarse(logps, self._top[-1]))

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint keeps: the start model is not there when a run goes on."""
        kept = {f"top.{i}": top.cpu().to(torch.int32) for i, top in enumerate(self._top)}
        return kept | {f"start.{i}": start.cpu().clone() for i, start in enumerate(self._start)}

    def measure(self, model: nn.Module) -> float:
        """KL per response token now, in nats."""
        total, positions = 0.0, 0
        with torch.inference_mode():
            for logps, top, start in zip(self._logps(model), self._top, self._start, strict=True):
                terms = start.exp() * (start - _coarse(logps, top))
                total += float(terms.nan_to_num().sum())  # 0 * log 0 is 0
                positions += len(terms)
        return total / positions

    def _logps(self, model: nn.Module) -> Iterator[Tensor]:
        """Log-probs over the vocabulary at the response positions, a chunk at a time."""
        device = next(model.parameters()).device
        head = head_of(causal_lm(model))
        was_training = model.training
        model.eval()
        try:
            for first in range(0, len(self._pairs), PAIRS_AT_ONCE):
                batch = collate(self._pairs[first : first + PAIRS_AT_ONCE], self._pad_id).to(device)
                hidden = last_hidden(model, batch.input_ids, batch.attention_mask)
                rows, positions = batch.response_mask[:, 1:].nonzero(as_tuple=True)
                for chunk in hidden[rows, positions].split(max(1, CHUNK_ENTRIES // head.vocabulary)):
                    yield head.logits(chunk).log_softmax(1)
        finally:
            model.train(was_training)


def _coarse(logps: Tensor, top: Tensor) -> Tensor:
    """Log-probs of the kept tokens, and of all others together."""
    kept = logps.gather(1, top)
    if kept.shape[1] == logps.shape[1]:
        return kept
    rest = (1 - kept.exp().sum(1, keepdim=True)).clamp(min=1e-7).log()
    return torch.cat([kept, rest], dim=1)
