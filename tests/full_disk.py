"""A disk that is full for files of one name: they go to /dev/full, which takes no byte, whoever writes them.

safetensors writes to a name of its own and renames it; there the library's own error is raised instead.
"""

from __future__ import annotations

import builtins
import io
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError

FULL = "/dev/full"
NO_SPACE = "Error while serializing: I/O error: No space left on device (os error 28)"  # seen on a full tmpfs


@dataclass(frozen=True)
class FullDisk:
    """Full for files of this name, where their path holds `within`: for files in a folder that is filled before it has
    its name, and in a checkpoint, there must be one. Called, it takes hold of this process; what it gives undoes that.
    """

    name: str
    within: str = ""

    def __call__(self) -> Callable[[], None]:
        patches = {
            (tempfile, "mkstemp"): self._mkstemp,
            (tempfile, "mkdtemp"): self._mkdtemp,
            (safetensors.torch, "serialize_file"): self._serialize,
            (builtins, "open"): self._open,
            (io, "open"): self._open,  # pathlib's
            (os, "open"): self._os_open,
            (os, "chmod"): _chmod,
        }
        before = {place: getattr(*place) for place in patches}
        for (module, name), patch in patches.items():
            setattr(module, name, partial(patch, before[module, name]))
        return lambda: [setattr(*place, real) for place, real in before.items()] and None

    def _mkstemp(self, real: Any, *, dir: Any, prefix: str, suffix: str) -> tuple[int, str]:
        handle, path = real(dir=dir, prefix=prefix, suffix=suffix)
        if prefix == f".{self.name}." and self.within in str(dir):
            os.unlink(path)
            os.symlink(FULL, path)
        elif prefix == ".gapo.json.":  # the first file of a checkpoint: others will be written beside it
            self._trap(Path(dir))
        return handle, path

    def _mkdtemp(self, real: Any, *where: Any, **options: Any) -> str:
        path: str = real(*where, **options)
        self._trap(Path(path))
        return path

    def _serialize(self, real: Any, tensors: Any, filename: Any, *more: Any, **options: Any) -> None:
        name = Path(filename).name
        if (name == self.name or name.startswith(f".{self.name}.")) and self.within in str(filename):
            raise SafetensorError(NO_SPACE)
        real(tensors, filename, *more, **options)

    def _open(self, real: Any, file: Any, mode: str = "r", *more: Any, **options: Any) -> Any:
        return real(FULL if "a" in mode and self._is_named(file) else file, mode, *more, **options)

    def _os_open(self, real: Any, file: Any, flags: int, *more: Any, **options: Any) -> int:
        appends = bool(flags & os.O_APPEND) and self._is_named(file)
        return int(real(FULL if appends else file, flags, *more, **options))

    def _is_named(self, file: Any) -> bool:
        return not isinstance(file, int) and Path(os.fsdecode(file)).name == self.name

    def _trap(self, folder: Path) -> None:
        if self.within and self.within in str(folder) and not self.name.endswith(".safetensors"):
            (folder / self.name).symlink_to(FULL)


def _chmod(real: Any, path: Any, *more: Any, **options: Any) -> None:
    if not os.path.islink(path):  # /dev/full is everybody's
        real(path, *more, **options)
