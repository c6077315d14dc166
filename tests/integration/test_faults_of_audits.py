"""An audit that is killed, asked to leave, started twice, or finds the disk full goes on to the same bytes."""

from __future__ import annotations

import shutil
import signal
import socket

import pytest

import kills
from full_disk import FullDisk
from gapo.storage import is_part
from kills import Place, Point

COMMAND = ["audit", "pairs.jsonl", "kept.jsonl", "--keep", "stable", "--out", "OUT", "--model", "model"]
COMMAND += ["--batch-pairs", "4", "--block-pairs", "4", "--compositions", "2"]
PART = ("runs/audit_folder.py", "write_part")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """An audit of four blocks that nothing happened to stands in TRUTH."""
    kills.start_server()
    folder = kills.make_place(tmp_path_factory.mktemp("faults") / "place").folder
    place = Place(folder, COMMAND, trains=False)
    assert place.run() == 0, place.words
    (folder / "OUT").rename(folder / "TRUTH")
    (folder / "kept.jsonl").rename(folder / "truth.jsonl")
    return place


@pytest.fixture(autouse=True)
def anew(place):
    yield
    shutil.rmtree(place.folder / "OUT", ignore_errors=True)
    (place.folder / "kept.jsonl").unlink(missing_ok=True)


def assert_same(place):
    for ours, theirs in (("OUT/audit.parquet", "TRUTH/audit.parquet"), ("kept.jsonl", "truth.jsonl")):
        assert (place.folder / ours).read_bytes() == (place.folder / theirs).read_bytes()
    assert [path.name for path in (place.folder / "OUT").iterdir() if path.name.startswith(".")] == []


def test_killed_or_asked_to_leave_it_goes_on_to_the_same_bytes(place):
    assert place.run(point=Point(2, *PART)) == -9
    assert place.run(point=Point(2, *PART, signal=signal.SIGTERM)) == 143, place.words
    assert "4 of 16 pairs are scored already" in place.words
    assert "gapo: interrupted; what is scored is kept, and the same command goes on" in place.words
    assert place.run(point=Point(1, *PART, signal=signal.SIGINT)) == 130, place.words
    assert place.run() == 0, place.words
    assert_same(place)


def test_a_second_audit_in_the_folder_is_refused_while_the_first_is_there_and_no_longer(place):
    first = place.start(point=Point(2, *PART, signal=signal.SIGSTOP))
    kills.wait_until_stopped(first.pid)
    assert place.run() == 2
    who = f"process {first.pid} on {socket.gethostname()}"
    assert f"gapo: {who} is at work in OUT; wait until it has ended, or choose another folder" in place.words
    first.kill()
    first.join()
    assert place.run() == 0, place.words
    assert_same(place)


def test_a_disk_full_for_every_kind_of_file_is_one_sentence_and_the_audit_goes_on(place):
    paths = {
        "plan.json": "OUT/parts/plan.json",
        "block-000001.parquet": "OUT/parts/block-000001.parquet",
        "audit.parquet": "OUT/audit.parquet",
        "audit.json": "OUT/audit.json",
        "kept.jsonl": "kept.jsonl",
        "report.html": "OUT/report.html",
    }
    for name, path in paths.items():
        (place.folder / "kept.jsonl").unlink(missing_ok=True)
        assert place.run(fault=FullDisk(name)) == 2, f"{name}: {place.words}"
        (said,) = [line for line in place.words.splitlines() if line.startswith("gapo: ")]
        assert f"{path} cannot be written: the disk is full" in said
        assert not [path for path in place.folder.rglob("*") if is_part(path)]
    (place.folder / "kept.jsonl").unlink(missing_ok=True)
    assert place.run() == 0, place.words
    assert_same(place)


def test_a_block_damaged_by_one_byte_is_scored_again(place):
    assert place.run(point=Point(4, *PART)) == -9
    part = place.folder / "OUT" / "parts" / "block-000001.parquet"
    content = bytearray(part.read_bytes())
    content[60] ^= 4
    part.write_bytes(content)
    assert place.run() == 2
    assert "block-000001.parquet is damaged" in place.words
    assert place.run() == 0, place.words
    assert_same(place)
