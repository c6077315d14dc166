"""Checkpoints in shards, which torch reads with pickles: what they may name is settled before, and nothing else is.

A checkpoint of FSDP2 has a `.metadata`, a pickle of a handful of torch's own classes, and small values beside the
tensors. torch unpickles both without a question; a folder from somebody else could hold anything in their place.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from gapo.errors import InputError

METADATA = ".metadata"
FORCE = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
_OF_METADATA = (
    "BytesStorageMetadata",
    "ChunkStorageMetadata",
    "Metadata",
    "MetadataIndex",
    "StorageMeta",
    "TensorProperties",
    "TensorStorageMetadata",
    "_MEM_FORMAT_ENCODING",
)
KNOWN = {
    *(("torch.distributed.checkpoint.metadata", name) for name in _OF_METADATA),
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
    ("torch.serialization", "_get_layout"),
    ("torch", "Size"),
    ("collections", "OrderedDict"),
    *((module, name) for module in ("pathlib", "pathlib._local") for name in ("PosixPath", "WindowsPath")),
}


class _Metadata(pickle.Unpickler):
    """Knows the names above, whole: a dotted one could reach into anything that a module has imported."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in KNOWN or (module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name}"[:200])


def refuse_foreign_shards(checkpoint: Path) -> None:
    """Refuse a checkpoint whose metadata name anything but metadata; nothing of it is run to find that out."""
    for path in sorted(checkpoint.rglob(METADATA)):
        try:
            with open(path, "rb") as file:
                _Metadata(file).load()
        except Exception as error:  # whatever damaged bytes make of the classes above
            raise InputError(
                f"{path} holds something else than metadata of shards ({error}), which could be code; resume from a "
                "checkpoint that this project wrote"
            ) from None


@contextmanager
def only_weights() -> Iterator[None]:
    """Inside, torch.load reads numbers and plain containers only, whatever its caller asks for."""
    before = os.environ.get(FORCE)
    os.environ[FORCE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[FORCE]
        else:
            os.environ[FORCE] = before
