"""Encoded pairs become one rectangular batch: two rows a pair, all chosen rows first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from gapo.pairs.encode import EncodedPair

Rows = Int[Tensor, "rows tokens"]


@dataclass(frozen=True)
class PairBatch:
    """Rows `0..n-1` are prompt and chosen response, rows `n..2n-1` prompt and rejected response, padded right."""

    input_ids: Rows
    attention_mask: Rows
    response_mask: Bool[Tensor, "rows tokens"]

    def __len__(self) -> int:
        return len(self.input_ids) // 2

    @property
    def tokens(self) -> int:
        """Tokens that are not padding."""
        return int(self.attention_mask.sum())

    def to(self, device: torch.device | str) -> PairBatch:
        return PairBatch(self.input_ids.to(device), self.attention_mask.to(device), self.response_mask.to(device))

    def take(self, pair: int) -> PairBatch:
        """One pair as a batch of its own, without the padding it does not need."""
        rows = torch.tensor([pair, pair + len(self)], device=self.input_ids.device)
        width = int(self.attention_mask[rows].sum(1).max())
        return PairBatch(
            self.input_ids[rows, :width], self.attention_mask[rows, :width], self.response_mask[rows, :width]
        )

    @staticmethod
    def of(inputs: Mapping[str, Any]) -> PairBatch:
        """The batch inside a trainer's inputs."""
        return PairBatch(**{field.name: inputs[field.name] for field in fields(PairBatch)})


def collate(pairs: Sequence[EncodedPair], pad_id: int) -> PairBatch:
    """Pad right to the longest row."""
    rows = [(pair.prompt, pair.chosen) for pair in pairs] + [(pair.prompt, pair.rejected) for pair in pairs]
    width = max(len(prompt) + len(response) for prompt, response in rows)
    input_ids = torch.full((len(rows), width), pad_id, dtype=torch.long)
    attention_mask = torch.zeros((len(rows), width), dtype=torch.long)
    response_mask = torch.zeros((len(rows), width), dtype=torch.bool)
    for i, (prompt, response) in enumerate(rows):
        end = len(prompt) + len(response)
        input_ids[i, :end] = torch.tensor(prompt + response)
        attention_mask[i, :end] = 1
        response_mask[i, len(prompt) : end] = True
    return PairBatch(input_ids, attention_mask, response_mask)


def mismatched(pairs: Sequence[EncodedPair], max_length: int | None = None) -> list[EncodedPair]:
    """Each prompt with the responses of the next pair that has another prompt: what KTO measures the drift on.

    Responses are cut to `max_length` tokens with their new prompt. Where all prompts are equal the next pair serves.
    """
    crossed = []
    for i, pair in enumerate(pairs):
        following = (pairs[(i + step) % len(pairs)] for step in range(1, len(pairs) + 1))
        other = next((p for p in following if p.prompt != pair.prompt), pairs[(i + 1) % len(pairs)])
        room = max_length - len(pair.prompt) if max_length is not None else None
        crossed.append(EncodedPair(pair.id, pair.prompt, other.chosen[:room], other.rejected[:room]))
    return crossed
