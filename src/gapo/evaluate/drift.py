"""How far a model is from another: KL divergence per response token, exact over the vocabulary, both ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gapo.diagnostics.intervals import Numbers
from gapo.errors import InputError
from gapo.evaluate.quantity import as_json, mean_of
from gapo.evaluate.questions import bench_named, rows_of
from gapo.evaluate.subject import Subject
from gapo.model.generate import replies
from gapo.model.head import CHUNK_ENTRIES, Head, head_of
from gapo.model.passes import batch_tokens
from gapo.model.policy import causal_lm, last_hidden
from gapo.pairs.collate import length_groups
from gapo.pairs.encode import EncodedPair, Encoder
from gapo.pairs.formats import load_pairs
from gapo.pairs.pair import Prompt
from gapo.pairs.rows import NEEDED_COLUMNS
from gapo.training.dataset import encoded_pairs

PROMPTS_AT_ONCE = 16


@dataclass(frozen=True)
class Response:
    """A response's tokens after its prompt's. `group`: responses of one prompt hang together."""

    id: str
    prompt: list[int]
    ids: list[int]
    group: str


@dataclass(frozen=True)
class Drift:
    """Mean KL over the tokens of each response, in nats: KL(model || base) and KL(base || model)."""

    ids: tuple[str, ...]
    groups: tuple[str, ...]
    tokens: NDArray[np.int64]
    model_base: Numbers
    base_model: Numbers


def responses_of(pairs: Sequence[EncodedPair]) -> list[Response]:
    """Both responses of every pair."""
    found = []
    for pair in pairs:
        group = str(pair.prompt)
        found += [Response(f"{pair.id}:chosen", pair.prompt, pair.chosen, group)]
        found += [Response(f"{pair.id}:rejected", pair.prompt, pair.rejected, group)]
    return found


def own_responses(
    subject: Subject, prompts: Sequence[Prompt], encoder: Encoder, *, seed: int = 0, max_new_tokens: int = 128
) -> list[Response]:
    """A reply a prompt, drawn from the model itself: KL(model || base) on them is the drift as the model lives it.

    What follows a reply that was cut short is the end of the turn; KL is taken of the distribution there, which does
    not depend on the token.
    """
    found = []
    for start in range(0, len(prompts), PROMPTS_AT_ONCE):
        some = prompts[start : start + PROMPTS_AT_ONCE]
        drawn = {"temperature": 1.0, "seed": seed + start, "max_new_tokens": max_new_tokens}
        for place, reply in enumerate(replies(subject.model, encoder, some, **drawn)):  # type: ignore[arg-type]
            ids, name = encoder.prompt_ids(some[place]), f"{start + place}"
            found.append(Response(name, ids, encoder.response_ids(some[place], reply), name))
    return found


def drift_responses(
    subject: Subject,
    data: str,
    encoder: Encoder,
    *,
    split: str | None = None,
    limit: int | None = None,
    own: bool = False,
    **drawn: int,
) -> tuple[list[Response], str]:
    """The responses of pairs, or replies of the model where there are prompts alone or `own` asks for them."""
    try:
        pairs = load_pairs(data, split=split, limit=limit)
    except InputError:
        if not Path(data).is_file() or _has_responses(Path(data)):
            raise
        prompts: list[Prompt] = [question.prompt for question in bench_named(data, limit=limit).questions]
        return own_responses(subject, prompts, encoder, **drawn), "replies of the model"
    if own:
        prompts = list(dict.fromkeys(pair.prompt for pair in pairs))
        return own_responses(subject, prompts, encoder, **drawn), "replies of the model"
    return responses_of(encoded_pairs(pairs, encoder).encoded), "the pairs' responses"


def _has_responses(path: Path) -> bool:
    """Whether a file was meant to hold pairs; read as prompts, what is wrong with them would not be said."""
    return next((set(NEEDED_COLUMNS) & set(row) != set() for _, row in rows_of(path)), False)


@torch.no_grad()
def drift_of(model: nn.Module, base: nn.Module, responses: Sequence[Response], pad_id: int) -> Drift:
    """KL at every position of the responses, which are the same for both models."""
    heads = head_of(causal_lm(model)), head_of(causal_lm(base))
    if heads[0].vocabulary != heads[1].vocabulary:
        raise InputError(
            f"the models have vocabularies of {heads[0].vocabulary:,} and {heads[1].vocabulary:,} tokens; a KL "
            "divergence compares models of one vocabulary: give the model that was trained as the base"
        )
    sums = np.zeros((2, len(responses)))
    widths = [len(response.prompt) + len(response.ids) for response in responses]
    device = next(model.parameters()).device
    for group in length_groups(widths, 1, batch_tokens(model)):
        rows = [responses[int(i)] for i in group]
        ids, mask, owners, positions = _padded(rows, pad_id)
        hidden = [last_hidden(each, ids.to(device), mask.to(device))[owners, positions] for each in (model, base)]
        kl = _both_ways(heads, hidden)
        for way in range(2):
            sums[way, group] = np.bincount(owners.numpy(), kl[way].double().cpu().numpy(), len(rows))
    tokens = np.array([len(response.ids) for response in responses])
    names, groups = (tuple(getattr(response, key) for response in responses) for key in ("id", "group"))
    return Drift(names, groups, tokens, sums[0] / tokens, sums[1] / tokens)


def _padded(rows: Sequence[Response], pad_id: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Ids and mask, padded right, and for every response token its row and the position it is predicted from."""
    width = max(len(row.prompt) + len(row.ids) for row in rows)
    ids = torch.full((len(rows), width), pad_id, dtype=torch.long)
    mask = torch.zeros_like(ids)
    owners: list[int] = []
    positions: list[int] = []
    for i, row in enumerate(rows):
        start, end = len(row.prompt), len(row.prompt) + len(row.ids)
        ids[i, :end] = torch.tensor([*row.prompt, *row.ids])
        mask[i, :end] = 1
        owners += [i] * (end - start)
        positions += range(start - 1, end - 1)
    return ids, mask, torch.tensor(owners), torch.tensor(positions)


def _both_ways(heads: tuple[Head, Head], hidden: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """KL(first || second) and KL(second || first) at each position, a few positions at a time."""
    size = max(1, CHUNK_ENTRIES // heads[0].vocabulary)
    there, back = [], []
    for first, second in zip(hidden[0].split(size), hidden[1].split(size), strict=True):
        p, q = (_logps(head, part) for head, part in zip(heads, (first, second), strict=True))
        there.append((p.exp() * (p - q)).sum(1))
        back.append((q.exp() * (q - p)).sum(1))
    return torch.cat(there), torch.cat(back)


def _logps(head: Head, hidden: Tensor) -> Tensor:
    """In fp32 at least: a KL divergence is a small difference of large sums."""
    logits = head.logits(hidden)
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(1)


def drift_report(drift: Drift) -> dict[str, Any]:
    """Means per token with intervals by resampling prompts, as an object of evals files."""
    both = {"model_base": drift.model_base, "base_model": drift.base_model}
    figures = {way: as_json(mean_of(kl, drift.groups, drift.tokens)) for way, kl in both.items()}
    return {"unit": "nats per token", "responses": len(drift.ids), "tokens": int(drift.tokens.sum()), **figures}
