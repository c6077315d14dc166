"""A full or a read-only disk: the sentence says so, names the path, and what was there is still there."""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from corpus import check_sentence, content_of, jsonl, told

OLD = b"what was here before\n"


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 128 KB of which 64 are free; only who may mount has one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("no right to mount a small disk here; the simulated ones below run everywhere")
    try:
        (folder / "ballast").write_bytes(bytes(2**16))
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def many_pairs(path: Path) -> None:
    """200 KB of pairs that do not pack well."""
    rng = random.Random(0)
    words = [f"{rng.getrandbits(400):x}" for _ in range(1000)]
    path.write_bytes(jsonl(*({"prompt": word, "chosen": word[:50], "rejected": word[50:]} for word in words)))


@pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "parquet", "jsonl.gz"])
def test_a_full_disk_keeps_the_old_file(kind, place, small_disk, monkeypatch, capsys):
    many_pairs(place / "many.jsonl")
    out = small_disk / f"out.{kind}"
    out.write_bytes(OLD)
    before = content_of(small_disk)
    code, words = told(("flip", "many.jsonl", str(out), "--force", "-q"), monkeypatch, capsys)
    check_sentence(code, words, "the disk is full; make room", str(out))
    assert content_of(small_disk) == before


COMMANDS = {
    "flip": ("flip", "pairs.jsonl", "disk/out.jsonl", "-q"),
    "report": ("report", "run", "--out", "disk/page.html", "-q"),
    "audit": ("audit", "pairs.jsonl", "--model", "model", "--out", "disk/audit", "-q"),
    "eval": ("eval", "reward", "model", "--data", "pairs.jsonl", "--out", "disk/evals", "-q"),
    "train": (
        "train", "mini", "objective.name=simpo", "model.name=model", "data.train=pairs.jsonl", "train.use_cpu=true",
        "train.max_steps=1", "train.output_dir=disk/run", "-q",
    ),
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_on_a_disk_without_room(command, place, small_disk, monkeypatch, capsys):
    (place / "disk").symlink_to(small_disk)
    (place / "run").mkdir()
    (place / "run" / "recipe.yaml").write_text("model: {name: model}\n")
    (small_disk / "ballast").write_bytes(bytes(free(small_disk) + 2**16))
    before = content_of(place)
    code, words = told(COMMANDS[command], monkeypatch, capsys)
    check_sentence(code, words, "the disk is full; make room", "disk/")
    assert {name: now for name, now in content_of(place).items() if name in before} == before
    assert not list(small_disk.rglob("*.part"))


def free(folder: Path) -> int:
    return shutil.disk_usage(folder).free


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_on_a_read_only_disk(command, place, small_disk, monkeypatch, capsys):
    (place / "disk").symlink_to(small_disk)
    (place / "run").mkdir()
    (place / "run" / "recipe.yaml").write_text("model: {name: model}\n")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    before = content_of(place)
    code, words = told(COMMANDS[command], monkeypatch, capsys)
    check_sentence(code, words, "the disk is read-only; choose another place", "disk/")
    assert content_of(place) == before


SIMULATED = {
    "full when it is begun": (tempfile, "mkstemp", errno.ENOSPC, "the disk is full"),
    "used up": (tempfile, "mkstemp", errno.EDQUOT, "your share of the disk is used up"),
    "read-only": (tempfile, "mkstemp", errno.EROFS, "the disk is read-only"),
    "not permitted": (tempfile, "mkstemp", errno.EACCES, "permission is denied"),
    "full when it gets its name": (Path, "replace", errno.ENOSPC, "the disk is full"),
    "failing": (Path, "replace", errno.EIO, "full or failing"),
}


@pytest.mark.parametrize("name", SIMULATED)
def test_a_disk_that_says_no(name, place, monkeypatch, capsys):
    owner, method, number, says = SIMULATED[name]

    def refuse(*_, **__):
        raise OSError(number, os.strerror(number))

    before = content_of(place)
    with monkeypatch.context() as patched:
        patched.setattr(owner, method, refuse)
        code, words = told(("flip", "pairs.jsonl", "out.jsonl", "--force", "-q"), monkeypatch, capsys)
    check_sentence(code, words, says, "out.jsonl")
    assert content_of(place) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind root; the one above is simulated")
def test_a_file_that_may_not_be_read(place, monkeypatch, capsys):
    (place / "pairs.jsonl").chmod(0)
    code, words = told(("flip", "pairs.jsonl", "out.jsonl", "--force", "-q"), monkeypatch, capsys)
    check_sentence(code, words, "cannot be read", "pairs.jsonl")
