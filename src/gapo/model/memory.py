"""How much memory there is, and keeping what was freed."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from pathlib import Path

import torch

_MALLOC_OPTIONS = (
    (-3, (1 << 30, 1 << 25)),  # M_MMAP_THRESHOLD: tensors come from the heap; older glibc takes at most 32 MB
    (-1, (2**31 - 1,)),  # M_TRIM_THRESHOLD: the heap is not given back
    (-2, (1 << 26,)),  # M_TOP_PAD: and grows in steps of 64 MB
)
UNLIMITED = 1 << 60  # cgroups write "no limit" as a number close to 2**63


def keep_freed_memory() -> bool:
    """Let malloc keep what is freed: a large tensor made anew each step otherwise pays a page fault every 4 kB.

    True if it is so now. Linux with glibc only; GAPO_KEEP_MEMORY=0 turns it off.
    """
    if os.environ.get("GAPO_KEEP_MEMORY") == "0":
        return False
    return _malloc_is_set()


@cache
def _malloc_is_set() -> bool:
    if not _has_glibc():
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    done = [any(mallopt(option, value) == 1 for value in values) for option, values in _MALLOC_OPTIONS]
    return all(done)


def _has_glibc() -> bool:
    try:
        return sys.platform == "linux" and "glibc" in (os.confstr("CS_GNU_LIBC_VERSION") or "")
    except (AttributeError, ValueError, OSError):  # musl does not know the name
        return False


def available_memory(device: torch.device | str) -> int:
    """Bytes that can still be used on this device."""
    device = torch.device(device)
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    if sys.platform == "linux":
        found = linux_memory()
        if found is not None:
            return found
    try:
        import psutil  # type: ignore[import-untyped]

        return int(psutil.virtual_memory().available)
    except ImportError:
        return 2 << 30  # enough for something small


def linux_memory(root: Path = Path("/")) -> int | None:
    """MemAvailable, or what a container's limit leaves if that is less."""
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError, IndexError):
        return None
    return max(0, min([free, *_cgroup_rooms(root)]))


def _cgroup_rooms(root: Path) -> list[int]:
    """What each limit above this process leaves: version 2 first, then version 1."""
    v2, v1 = root / "sys/fs/cgroup", root / "sys/fs/cgroup/memory"
    own = _own_groups(root)
    rooms = [
        _room(folder, "memory.max", "memory.current", "inactive_file") for folder in _upwards(v2, own.get("", "/"))
    ]
    rooms += [
        _room(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        for folder in _upwards(v1, own.get("memory", "/"))
    ]
    return [room for room in rooms if room is not None]


def _own_groups(root: Path) -> dict[str, str]:
    """Controller to path, from lines such as `0::/a` (version 2) and `4:memory:/a` (version 1)."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return {}
    parts = [line.split(":", 2) for line in lines if line.count(":") >= 2]
    return {controller: path for _, names, path in parts for controller in names.split(",")}


def _upwards(mount: Path, path: str) -> list[Path]:
    """The group's folder and all above it, up to the mount: any of them may hold the limit."""
    folders = [mount]
    for part in Path(path).parts[1:]:
        folders.append(folders[-1] / part)
    return folders


def _room(folder: Path, limit: str, usage: str, cached: str) -> int | None:
    """limit - usage, where the file cache that the kernel would give back counts as free. None without a limit."""
    try:
        most = int((folder / limit).read_text())  # "max" is no number: no limit
        used = int((folder / usage).read_text())
    except (OSError, ValueError):
        return None
    if most >= UNLIMITED:
        return None
    try:
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        used -= int(stat.get(cached, 0))
    except (OSError, ValueError):
        pass
    return most - max(0, used)
