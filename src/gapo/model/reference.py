"""Log-probs of many pairs without gradient: length-sorted batches, and a cache on disk keyed by content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gapo.model.kept_tensors import keep, read_kept
from gapo.model.logps import PairLogps
from gapo.model.passes import Precision, batch_tokens, idle_batch, idle_passes
from gapo.model.policy import causal_lm, pair_logps
from gapo.model.ranks import ALONE, Ranks, joined
from gapo.model.sharding import fresh_weights, is_sharded, local, no_graph
from gapo.pairs.collate import collate, length_groups, row_widths
from gapo.pairs.encode import EncodedPair
from gapo.pairs.token_cache import StoredTokens
from gapo.storage import cache_folder

Batches = Iterable[NDArray[np.int64]]
Progress = Callable[[Batches], Batches]
FIELDS = ("chosen", "rejected", "chosen_tokens", "rejected_tokens")  # of PairLogps, and of its file
WHAT = "reference log-probs"


def no_progress(batches: Batches) -> Batches:
    return batches


def logps_of(
    model: nn.Module,
    pairs: Sequence[EncodedPair],
    pad_id: int,
    progress: Progress = no_progress,
    precision: Precision = nullcontext,
    shared: bool = False,
    ranks: Ranks = ALONE,
) -> PairLogps:
    """Log-probs of every pair, in the order given, on the CPU. Each forward runs inside a `precision()` of its own.

    `ranks` share the work, and all of them have the result.
    """
    device = next(model.parameters()).device
    found: list[Tensor] = []  # chosen, rejected and their tokens: four numbers a pair, whatever the number of pairs
    was_training = model.training
    model.eval()
    try:
        with no_graph(model), fresh_weights(model):
            every = list(length_groups(row_widths(pairs, shared), 1 if shared else 2, batch_tokens(model)))
            groups = every[ranks.here :: ranks.total]
            idle = idle_passes(model, len(groups))
            for indices in progress(groups):
                batch = collate([pairs[int(i)] for i in indices], pad_id, shared).to(device)
                with precision():
                    part = pair_logps(model, batch)
                fields = (part.chosen, part.rejected, part.chosen_tokens, part.rejected_tokens)
                found = found or [torch.zeros(len(pairs), dtype=field.dtype) for field in fields]
                for whole, field in zip(found, fields, strict=True):
                    whole[torch.from_numpy(indices)] = field.cpu()
            for _ in range(idle):
                pair_logps(model, idle_batch(collate(pairs[:1], pad_id, shared).to(device)))
    finally:
        model.train(was_training)
    found = found or [torch.zeros(len(pairs), dtype=kind) for kind in _types(model)]  # more ranks than batches
    # clones are ordinary tensors again; where a rank has not been, it adds 0
    return PairLogps(*(ranks.sum(field.clone().to(ranks.device)).cpu() for field in found))


def _types(model: nn.Module) -> tuple[torch.dtype, ...]:
    """Of the two log-probs, in fp32 at least, and of the two counts."""
    exact = torch.promote_types(next(model.parameters()).dtype, torch.float32)
    return exact, exact, torch.int64, torch.int64


def has_start_model(model: nn.Module) -> bool:
    """Whether the start model is there at any time: adapters can be turned off, and nothing else is trained.

    LoRA's `bias` other than none, or a base weight set to train, stays moved with the adapters off.
    """
    if not hasattr(model, "disable_adapter"):
        return False
    adapters = (str(getattr(model.base_model, "prefix", "lora_")), "modules_to_save.", "trainable_tokens_")
    return all(any(mark in name for mark in adapters) for name, p in model.named_parameters() if p.requires_grad)


def start_model(model: nn.Module) -> AbstractContextManager[object]:
    """Inside, a LoRA model is its start model (adapters off); a plain one is as it is."""
    return model.disable_adapter() if hasattr(model, "disable_adapter") else nullcontext()  # type: ignore[operator, no-any-return]


def reference_logps(
    model: nn.Module,
    pairs: Sequence[EncodedPair],
    pad_id: int,
    *,
    cache: bool = True,
    progress: Progress = no_progress,
    precision: Precision = nullcontext,
    precision_name: str = "",
    shared: bool = False,
    ranks: Ranks = ALONE,
) -> PairLogps:
    """Log-probs under this model, computed once: the same weights, ids and precision are read from the cache.

    `shared` says how they are computed, not what they are, so it is no part of the cache's key. Nor is a label: what is
    kept has the responses of every pair in an order of their own, so that flips of other seeds and rates find it.
    """
    with start_model(model):
        if not cache:
            return logps_of(model, pairs, pad_id, progress, precision, shared, ranks)
        pairs, turned = in_order(pairs)
        path = cache_folder("reference", f"{content_key(fingerprint(model), pairs, precision_name)}.safetensors")
        kept = ranks.first_decides(lambda: read_kept(path, FIELDS, len(pairs), WHAT))
        if kept is not None:
            return PairLogps(**kept).swapped(turned)
        found = logps_of(model, pairs, pad_id, progress, precision, shared, ranks)
        if ranks.first:
            keep(path, {name: getattr(found, name) for name in FIELDS}, WHAT)
        return found.swapped(turned)


def in_order(pairs: Sequence[EncodedPair]) -> tuple[Sequence[EncodedPair], Tensor]:
    """The pairs with the lesser response in front, whatever its label, and which of them that turned."""
    turned = np.fromiter((pair.rejected < pair.chosen for pair in pairs), np.bool_, len(pairs))
    if isinstance(pairs, StoredTokens):
        return replace(pairs, swapped=pairs.swapped ^ turned), torch.from_numpy(turned)
    ordered = [
        replace(pair, chosen=pair.rejected, rejected=pair.chosen) if turn else pair
        for pair, turn in zip(pairs, turned, strict=True)
    ]
    return ordered, torch.from_numpy(turned)


def content_key(model: str, pairs: Sequence[EncodedPair], precision: str) -> str:
    """A digest of a model's fingerprint, the pairs' ids and a precision."""
    digest = hashlib.blake2b(f"{model}{precision}".encode(), digest_size=16)
    if isinstance(pairs, StoredTokens):
        digest.update(pairs.address.encode())
        return digest.hexdigest()
    for pair in pairs:
        digest.update(json.dumps([pair.prompt, pair.chosen, pair.rejected], separators=(",", ":")).encode())
    return digest.hexdigest()


def fingerprint(model: nn.Module) -> str:
    """A digest of what the model computes: class, settings, and the bytes of every weight outside the adapters."""
    inner = causal_lm(model)
    digest = hashlib.blake2b(type(inner).__name__.encode(), digest_size=16)
    config = inner.config.to_dict()
    for key in ("_name_or_path", "transformers_version", "use_cache", "dtype"):
        config.pop(key, None)
    digest.update(json.dumps(config, sort_keys=True, default=str).encode())
    for name, weight in inner.state_dict().items():
        if "lora_" not in name and "modules_to_save." not in name:
            digest.update(f"{name}{tuple(weight.shape)}{weight.dtype}".encode())
            here = local(weight.detach()).cpu().contiguous().reshape(-1)
            digest.update(here.view(torch.uint8).numpy().data)
    if is_sharded(model):  # the parts of all processes
        every = "".join(joined().gather_objects(digest.hexdigest()))
        return hashlib.blake2b(every.encode(), digest_size=16).hexdigest()
    return digest.hexdigest()
