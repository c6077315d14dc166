"""How much memory there is, inside containers too; and malloc's settings."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from gapo.model import memory
from gapo.model.memory import available_memory, keep_freed_memory, linux_memory

GB = 1 << 30


def machine(root, files):
    for name, text in {"proc/meminfo": f"MemTotal: 99 kB\nMemAvailable: {8 * GB // 1024} kB\n", **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(str(text))
    return linux_memory(root)


def test_without_a_limit_it_is_what_the_kernel_says(tmp_path):
    assert machine(tmp_path, {}) == 8 * GB


V2, V1 = "sys/fs/cgroup/", "sys/fs/cgroup/memory/"
CASES = {
    "version 2": ({V2 + "memory.max": 4 * GB, V2 + "memory.current": GB}, 3 * GB),
    "version 2, no limit": ({V2 + "memory.max": "max\n", V2 + "memory.current": GB}, 8 * GB),
    "version 2, file cache is free": (
        {V2 + "memory.max": 4 * GB, V2 + "memory.current": 3 * GB, V2 + "memory.stat": f"anon 1\ninactive_file {GB}\n"},
        2 * GB,
    ),
    "version 2, a group inside": (
        {
            "proc/self/cgroup": "0::/jobs/7\n",
            V2 + "jobs/memory.max": 2 * GB,
            V2 + "jobs/memory.current": GB,
            V2 + "jobs/7/memory.max": "max",
            V2 + "jobs/7/memory.current": 0,
        },
        GB,
    ),
    "version 1": ({V1 + "memory.limit_in_bytes": 2 * GB, V1 + "memory.usage_in_bytes": GB}, GB),
    "version 1, no limit": ({V1 + "memory.limit_in_bytes": 2**63 - 4096, V1 + "memory.usage_in_bytes": GB}, 8 * GB),
    "version 1, a group inside": (
        {
            "proc/self/cgroup": "4:cpu,memory:/a\n0::/\n",
            V1 + "a/memory.limit_in_bytes": GB,
            V1 + "a/memory.usage_in_bytes": 0,
        },
        GB,
    ),
    "a limit above what there is": ({V2 + "memory.max": 64 * GB, V2 + "memory.current": GB}, 8 * GB),
    "over the limit": ({V2 + "memory.max": GB, V2 + "memory.current": 2 * GB}, 0),
    "files that say nothing": ({V2 + "memory.max": "?", "proc/self/cgroup": "nonsense"}, 8 * GB),
}


@pytest.mark.parametrize(("files", "expected"), CASES.values(), ids=CASES)
def test_a_containers_limit_counts(tmp_path, files, expected):
    assert machine(tmp_path, files) == expected


def test_a_machine_without_meminfo_is_asked_otherwise(tmp_path, monkeypatch):
    assert linux_memory(tmp_path) is None
    monkeypatch.setattr(memory, "sys", SimpleNamespace(platform="darwin"))
    assert available_memory("mps") > 0


def test_this_machine_has_some_memory():
    assert 0 < available_memory("cpu") < 1 << 50
    assert available_memory(torch.device("cpu")) > 0


def test_a_gpu_answers_for_itself(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (5, 9))
    assert available_memory("cuda") == 5


def test_other_platforms_are_left_alone(monkeypatch):
    monkeypatch.setattr(memory, "sys", SimpleNamespace(platform="darwin"))
    assert memory._malloc_is_set.__wrapped__() is False


def test_the_environment_turns_it_off(monkeypatch):
    monkeypatch.setenv("GAPO_KEEP_MEMORY", "0")
    monkeypatch.setattr(memory, "_malloc_is_set", lambda: pytest.fail("touched malloc"))
    assert keep_freed_memory() is False


def test_malloc_is_told_once(monkeypatch):
    told = []
    fake = SimpleNamespace(mallopt=lambda option, value: told.append((option, value)) or 1)
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: fake)
    monkeypatch.setattr(memory, "_has_glibc", lambda: True)
    memory._malloc_is_set.cache_clear()
    try:
        assert keep_freed_memory()
        assert keep_freed_memory()
    finally:
        memory._malloc_is_set.cache_clear()
    assert told == [(-3, 1 << 30), (-1, 2**31 - 1), (-2, 1 << 26)]


@pytest.mark.skipif(not memory._has_glibc(), reason="needs glibc")
def test_memory_that_was_freed_is_used_again():
    """In a process of its own: page faults of the same allocations, before and after.

    Not none: glibc 2.36 pads an aligned request, so that it does not always fit where the last one was.
    """
    code = """
import resource, torch
from gapo.model.memory import keep_freed_memory
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(12):
        torch.ones(1 << 22)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
usual = faults()
assert keep_freed_memory()
faults()
print(usual, faults())
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    usual, kept = map(int, result.stdout.split())
    assert kept < 0.75 * usual
