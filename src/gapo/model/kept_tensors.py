"""Tensors that were computed once and are kept on disk, with a checksum: the file format has none of its own."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from gapo.storage import whole_file

logger = logging.getLogger("gapo")


def read_kept(path: Path, names: Sequence[str], rows: int, what: str) -> dict[str, Tensor] | None:
    """What is kept, or None where there is nothing usable (a damaged file is computed anew, with a word)."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        return None
    try:
        with safe_open(path, "pt") as file:
            stored = {name: file.get_tensor(name) for name in names}
            whole = (file.metadata() or {}).get("blake2b") == _digest(stored)
    except (OSError, SafetensorError, KeyError):
        whole = False
    if not whole or any(len(field) != rows for field in stored.values()):
        logger.warning("the cached %s in %s are damaged and are computed anew", what, path)
        return None
    return stored


def keep(path: Path, tensors: Mapping[str, Tensor], what: str) -> None:
    """Write them; where that fails it is said, for a cache is a help and not a need."""
    from safetensors.torch import save_file

    try:
        with whole_file(path) as part:
            save_file(dict(tensors), part, metadata={"blake2b": _digest(tensors)})
    except OSError as error:
        logger.warning("%s were not kept (%s)", what, error)


def _digest(tensors: Mapping[str, Tensor]) -> str:
    """Of names, types and bytes."""
    digest = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
