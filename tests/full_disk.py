"""A disk that is full for files of one name: they go to /dev/full, which takes no byte, whoever writes them.

safetensors writes to a name of its own and renames it; there the library's own error is raised instead.
"""

from __future__ import annotations

import builtins
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
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
        before = tempfile.mkstemp, tempfile.mkdtemp, os.chmod, builtins.open, safetensors.torch.serialize_file
        made, made_folder, chmod, opened, serialize = before

        def mkstemp(*, dir: Any, prefix: str, suffix: str) -> tuple[int, str]:
            handle, path = made(dir=dir, prefix=prefix, suffix=suffix)
            if prefix == f".{self.name}." and self.within in str(dir):
                os.unlink(path)
                os.symlink(FULL, path)
            elif prefix == ".gapo.json.":  # the first file of a checkpoint: others will be written beside it
                self._trap(Path(dir))
            return handle, path

        def mkdtemp(**where: Any) -> str:
            path = made_folder(**where)
            self._trap(Path(path))
            return path

        def serialize_file(tensors: Any, filename: Any, *more: Any, **options: Any) -> None:
            name = Path(filename).name
            if (name == self.name or name.startswith(f".{self.name}.")) and self.within in str(filename):
                raise SafetensorError(NO_SPACE)
            serialize(tensors, filename, *more, **options)

        def open_(file: Any, mode: str = "r", *more: Any, **options: Any) -> Any:
            appends = "a" in mode and not isinstance(file, int) and Path(file).name == self.name
            return opened(FULL if appends else file, mode, *more, **options)

        def chmod_(path: Any, *more: Any, **options: Any) -> None:
            if not os.path.islink(path):  # /dev/full is everybody's
                chmod(path, *more, **options)

        tempfile.mkstemp, tempfile.mkdtemp = mkstemp, mkdtemp
        os.chmod, builtins.open, safetensors.torch.serialize_file = chmod_, open_, serialize_file
        return lambda: _restore(*before)

    def _trap(self, folder: Path) -> None:
        if self.within and self.within in str(folder) and not self.name.endswith(".safetensors"):
            (folder / self.name).symlink_to(FULL)


def _restore(*before: Any) -> None:
    tempfile.mkstemp, tempfile.mkdtemp, os.chmod, builtins.open, safetensors.torch.serialize_file = before
