"""Encoded pairs become one rectangular batch: two rows a pair, or one row in which both responses share the prompt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from gapo.pairs.encode import EncodedPair
from gapo.pairs.token_cache import StoredTokens

Rows = Int[Tensor, "rows tokens"]
Widths = Sequence[int] | NDArray[np.int64]
PADDING, PROMPT, CHOSEN, REJECTED = -1, 0, 1, 2


class ResponseTokens(NamedTuple):
    """For every response token: its row, where the hidden state that predicts it is, its id, and whose it is."""

    rows: Int[Tensor, " responses"]
    positions: Int[Tensor, " responses"]
    ids: Int[Tensor, " responses"]
    owners: Int[Tensor, " responses"]  # pair for the chosen response, pair + n for the rejected one


@dataclass(frozen=True)
class PairBatch:
    """Token ids and, for each, which part of its pair it is: padding -1, prompt 0, chosen 1, rejected 2.

    Two rows a pair: rows `0..n-1` are prompt and chosen response, rows `n..2n-1` prompt and rejected response.
    Shared: row `i` is prompt, chosen, rejected. Padding is on the right.
    """

    input_ids: Rows
    segments: Rows
    shared: bool = False

    def __len__(self) -> int:
        return len(self.input_ids) // self.rows_per_pair

    @property
    def rows_per_pair(self) -> int:
        return 1 if self.shared else 2

    @property
    def attention_mask(self) -> Rows:
        """1 on tokens, 0 on padding."""
        return (self.segments != PADDING).long()

    @property
    def response_mask(self) -> Bool[Tensor, "rows tokens"]:
        return self.segments > PROMPT

    @property
    def position_ids(self) -> Rows:
        """Where each token stands in its own sequence: a rejected response follows its prompt. Padding stands at 0."""
        positions = torch.arange(self.segments.shape[1], device=self.segments.device).expand_as(self.segments)
        if self.shared:
            chosen = (self.segments == CHOSEN).sum(1, keepdim=True)
            positions = positions - chosen * (self.segments == REJECTED)
        return positions.masked_fill(self.segments == PADDING, 0)

    @property
    def tokens(self) -> int:
        """Tokens that are not padding."""
        return int((self.segments != PADDING).sum())

    def response_tokens(self) -> ResponseTokens:
        """A token is predicted from the one before it, the first of each response from the last of the prompt."""
        rows, at = self.response_mask.nonzero(as_tuple=True)
        kinds = self.segments[rows, at]
        positions = at - 1
        if self.shared:
            after_chosen = (kinds == REJECTED) & (self.segments[rows, positions] == CHOSEN)
            last_of_prompt = (self.segments == PROMPT).sum(1) - 1
            positions = torch.where(after_chosen, last_of_prompt[rows], positions)
        n = len(self)
        return ResponseTokens(rows, positions, self.input_ids[rows, at], rows % n + n * (kinds - CHOSEN))

    def response_counts(self) -> Int[Tensor, " responses"]:
        """Tokens of every response, all chosen ones first."""
        kinds = [(self.segments == kind).sum(1) for kind in (CHOSEN, REJECTED)]
        return torch.cat(kinds) if self.shared else kinds[0] + kinds[1]

    def to(self, device: torch.device | str) -> PairBatch:
        return PairBatch(self.input_ids.to(device), self.segments.to(device), self.shared)

    def take(self, pair: int) -> PairBatch:
        """One pair as a batch of its own, without the padding it does not need."""
        return self.of_pairs([pair])

    def chunks(self, tokens: int) -> list[tuple[Int[Tensor, " pairs"], PairBatch]]:
        """The batch cut into pairs of like length, at most `tokens` padded tokens each, with the pairs' indices."""
        groups = length_groups(self._widths().tolist(), self.rows_per_pair, tokens) if len(self) else ()
        return [(torch.from_numpy(group).to(self.input_ids.device), self.of_pairs(group.tolist())) for group in groups]

    def _widths(self) -> Int[Tensor, " pairs"]:
        """The length of each pair's longest row."""
        return (self.segments != PADDING).sum(1).view(self.rows_per_pair, -1).amax(0)

    def of_pairs(self, pairs: Sequence[int]) -> PairBatch:
        """Some pairs as a batch of their own, without the padding they do not need."""
        chosen = torch.tensor(pairs, device=self.input_ids.device)
        rows = chosen if self.shared else torch.cat([chosen, chosen + len(self)])
        width = int((self.segments[rows] != PADDING).sum(1).max())
        return PairBatch(self.input_ids[rows, :width], self.segments[rows, :width], self.shared)

    @staticmethod
    def cat(batches: Sequence[PairBatch]) -> PairBatch:
        """The pairs of several batches of one layout as one batch, in order."""
        batches = [batch for batch in batches if len(batch)] or batches[:1]  # a process may have no pair of a batch
        if len(batches) == 1:
            return batches[0]
        width = max(batch.input_ids.shape[1] for batch in batches)
        ids, segments = [], []
        for row in range(batches[0].rows_per_pair):  # with two rows a pair, the chosen ones of all batches come first
            for batch in batches:
                rows = slice(row * len(batch), (row + 1) * len(batch))
                room = (0, width - batch.input_ids.shape[1])
                ids.append(pad(batch.input_ids[rows], room))
                segments.append(pad(batch.segments[rows], room, value=PADDING))
        return PairBatch(torch.cat(ids), torch.cat(segments), batches[0].shared)

    @staticmethod
    def of(inputs: Mapping[str, Any]) -> PairBatch:
        """The batch inside a trainer's inputs, which hold tensors only: a row with both responses tells the layout."""
        segments = inputs["segments"]
        both = (segments == CHOSEN).any(1) & (segments == REJECTED).any(1)
        return PairBatch(inputs["input_ids"], segments, bool(both.any()))


def length_groups(widths: Widths, rows: int, tokens: int) -> Iterator[NDArray[np.int64]]:
    """Indices of pairs of like length: a group has at least one pair, and several take at most `tokens` padded."""
    order = np.argsort(np.asarray(widths), kind="stable")
    start = 0
    for end, i in enumerate(order):
        if end > start and rows * (end + 1 - start) * int(widths[i]) > tokens:  # sorted: this one is the widest
            yield order[start:end]
            start = end
    if start < len(order):
        yield order[start:]


def row_width(pair: EncodedPair, shared: bool) -> int:
    """Tokens in the longest row of a pair."""
    responses = (len(pair.chosen), len(pair.rejected))
    return len(pair.prompt) + (sum(responses) if shared else max(responses))


def row_widths(pairs: Sequence[EncodedPair], shared: bool) -> NDArray[np.int64]:
    """Tokens in the longest row of each pair; those of pairs on disk are known without reading them."""
    if not isinstance(pairs, StoredTokens):
        return np.fromiter((row_width(pair, shared) for pair in pairs), np.int64, len(pairs))
    lengths = pairs.lengths()
    responses: NDArray[np.int64] = lengths[:, 1:].sum(1) if shared else lengths[:, 1:].max(1)
    return lengths[:, 0] + responses


def collate(pairs: Sequence[EncodedPair], pad_id: int, shared: bool = False) -> PairBatch:
    """Pad right to the longest row."""
    if shared:
        rows = [[(p.prompt, PROMPT), (p.chosen, CHOSEN), (p.rejected, REJECTED)] for p in pairs]
    else:
        rows = [[(p.prompt, PROMPT), (p.chosen, CHOSEN)] for p in pairs]
        rows += [[(p.prompt, PROMPT), (p.rejected, REJECTED)] for p in pairs]
    width = max((row_width(pair, shared) for pair in pairs), default=0)
    input_ids = torch.full((len(rows), width), pad_id, dtype=torch.long)
    segments = torch.full((len(rows), width), PADDING, dtype=torch.long)
    for i, parts in enumerate(rows):
        start = 0
        for ids, kind in parts:
            end = start + len(ids)
            input_ids[i, start:end] = torch.tensor(ids)
            segments[i, start:end] = kind
            start = end
    return PairBatch(input_ids, segments, shared)


@dataclass(frozen=True, eq=False)
class Mismatched(Sequence[EncodedPair]):
    """Each prompt with the responses of the next pair that has another prompt: what KTO measures the drift on.

    Responses are cut to `max_length` tokens with their new prompt. Where all prompts are equal the next pair serves.
    """

    pairs: Sequence[EncodedPair]
    max_length: int | None = None

    def __len__(self) -> int:
        return len(self.pairs)

    @overload
    def __getitem__(self, index: int) -> EncodedPair: ...
    @overload
    def __getitem__(self, index: slice) -> list[EncodedPair]: ...
    def __getitem__(self, index: int | slice) -> EncodedPair | list[EncodedPair]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        n, index = len(self), range(len(self))[index]
        pair = self.pairs[index]
        following = (self.pairs[(index + step) % n] for step in range(1, n + 1))
        other = next((p for p in following if p.prompt != pair.prompt), None) or self.pairs[(index + 1) % n]
        room = self.max_length - len(pair.prompt) if self.max_length is not None else None
        return EncodedPair(pair.id, pair.prompt, other.chosen[:room], other.rejected[:room])


def mismatched(pairs: Sequence[EncodedPair], max_length: int | None = None) -> list[EncodedPair]:
    """All mismatched pairs at once."""
    return list(Mismatched(pairs, max_length))
