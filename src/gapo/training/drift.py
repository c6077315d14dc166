"""How far the policy has moved from where it started: KL per response token on a few fixed pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from gapo.model.head import CHUNK_ENTRIES, head_of
from gapo.model.policy import causal_lm, last_hidden
from gapo.model.sharding import as_forward, fresh_weights, no_graph
from gapo.pairs.collate import PairBatch, collate
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
        for top, start in self._coarse_logps(model):
            self._top.append(top)
            self._start.append(start)

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint keeps: the start model is not there when a run goes on."""
        kept = {f"top.{i}": top.cpu().to(torch.int32) for i, top in enumerate(self._top)}
        return kept | {f"start.{i}": start.cpu().clone() for i, start in enumerate(self._start)}

    def measure(self, model: nn.Module) -> float:
        """KL per response token now, in nats."""
        total, positions = 0.0, 0
        for (_, now), start in zip(self._coarse_logps(model, self._top), self._start, strict=True):
            terms = start.exp() * (start - now)
            total += float(terms.nan_to_num().sum())  # 0 * log 0 is 0
            positions += len(terms)
        return total / positions

    def _coarse_logps(self, model: nn.Module, tops: Sequence[Tensor] = ()) -> Iterator[tuple[Tensor, Tensor]]:
        """The tokens kept at the response positions and their log-probs, some pairs at a time."""
        device = next(model.parameters()).device
        was_training = model.training
        model.eval()
        try:
            with no_graph(model), fresh_weights(model):
                for k, first in enumerate(range(0, len(self._pairs), PAIRS_AT_ONCE)):
                    batch = collate(self._pairs[first : first + PAIRS_AT_ONCE], self._pad_id).to(device)
                    yield as_forward(model, _of_batch)(batch, tops[k] if tops else None)
        finally:
            model.train(was_training)


def _of_batch(model: nn.Module, batch: PairBatch, top: Tensor | None) -> tuple[Tensor, Tensor]:
    """At each response position the tokens to keep, found if not given, and their log-probs."""
    head = head_of(causal_lm(model))
    hidden = last_hidden(model, batch.input_ids, batch.attention_mask)
    rows, positions = batch.response_mask[:, 1:].nonzero(as_tuple=True)
    tops, coarse = [], []
    size = max(1, CHUNK_ENTRIES // head.vocabulary)
    for k, chunk in enumerate(hidden[rows, positions].split(size)):
        logps = head.logits(chunk).log_softmax(1)
        known = top[k * size : (k + 1) * size] if top is not None else None
        tops.append(logps.topk(min(TOP, logps.shape[1]), dim=1).indices if known is None else known)
        coarse.append(_coarse(logps, tops[-1]))
    return torch.cat(tops), torch.cat(coarse)


def _coarse(logps: Tensor, top: Tensor) -> Tensor:
    """Log-probs of the kept tokens, and of all others together."""
    kept = logps.gather(1, top)
    if kept.shape[1] == logps.shape[1]:
        return kept
    rest = (1 - kept.exp().sum(1, keepdim=True)).clamp(min=1e-7).log()
    return torch.cat([kept, rest], dim=1)
