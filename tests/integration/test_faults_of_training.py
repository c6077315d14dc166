"""Signals, a full disk, a second run in the folder: a run says what happened, and goes on to the same bits."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
from pathlib import Path

import pytest

import kills
from full_disk import FullDisk
from gapo.storage import is_part
from gapo.training.checkpoints import in_order, newest_whole
from kills import BackwardsClock, Point, Renames

SMALL = ("objective.name=gapo", "anchor.engine=two_pass", "train.max_steps=4", "train.logging_steps=1")
IN_CHECKPOINT = "checkpoints"
KINDS = {  # every kind of file a run writes, in the order in which it writes them, and how its path is told
    "recipe.yaml": ("", "OUT/recipe.yaml"),
    "environment.json": ("", "OUT/environment.json"),
    "texts.parquet": ("", "OUT/texts.parquet"),
    "held_out.parquet": ("", "OUT/held_out.parquet"),
    "start.json": ("", "OUT/start.json"),
    "steps.jsonl": ("", "OUT/steps.jsonl"),
    "pairs.parquet": ("", "OUT/pairs.parquet"),
    "gapo.json": ("", "OUT/checkpoints/checkpoint-2/gapo.json"),
    "drift.safetensors": ("", "OUT/checkpoints/checkpoint-2"),
    "model.safetensors": (IN_CHECKPOINT, "OUT/checkpoints/checkpoint-2"),
    "tokenizer.json": (IN_CHECKPOINT, "OUT/checkpoints/checkpoint-2"),
    "optimizer.pt": (IN_CHECKPOINT, "OUT/checkpoints/checkpoint-2"),
    "scheduler.pt": (IN_CHECKPOINT, "OUT/checkpoints/checkpoint-2"),
    "rng_state.pth": (IN_CHECKPOINT, "OUT/checkpoints/checkpoint-2"),
    "trainer_state.json": (IN_CHECKPOINT, "OUT/checkpoints/checkpoint-2"),
    "training_args.bin": (IN_CHECKPOINT, "OUT/checkpoints/checkpoint-2"),
    "files.json": (IN_CHECKPOINT, "OUT/checkpoints/checkpoint-2/files.json"),
    "model.safetensors of the result": (".model.", "OUT/model"),
    "README.md": (".model.", "OUT/model"),
    "evals.json": ("", "OUT/evals.json"),
    "report.html": ("", "OUT/report.html"),
}
BESIDE_WEIGHTS = {"config.json", "generation_config.json", "tokenizer_config.json"}  # by the calls that write weights


@pytest.fixture(scope="module", autouse=True)
def server():
    kills.start_server()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nothing happened to stands in TRUTH."""
    place = kills.make_place(tmp_path_factory.mktemp("faults") / "place", *SMALL)
    assert place.run(fault=Renames(str(place.folder / "renames.txt"))) == 0, place.words
    (place.folder / "OUT").rename(place.folder / "TRUTH")
    return place


@pytest.fixture
def place(whole):
    yield whole
    shutil.rmtree(whole.folder / "OUT", ignore_errors=True)


def assert_same(place):
    expected, found = (kills.content(place.folder / name) for name in ("TRUTH", "OUT"))
    assert sorted(found) == sorted(expected)
    assert [name for name in expected if found[name] != expected[name]] == []


def test_every_file_of_a_run_gets_its_name_by_a_rename_and_is_a_kind_we_know(whole):
    """But for those in a checkpoint, which counts only with its list of files: that one is renamed last."""
    renamed = {Path(line) for line in (whole.folder / "renames.txt").read_text().splitlines()}
    files = [path.relative_to(whole.folder / "TRUTH") for path in (whole.folder / "TRUTH").rglob("*") if path.is_file()]
    out = whole.folder / "OUT"
    unnamed = {path for path in files if not renamed & {out / path, *(out / parent for parent in path.parents)}}
    assert {path.parts[0] for path in unnamed} == {"checkpoints"}
    assert not [path for path in unnamed if path.name == "files.json"]
    assert {path.name for path in files} - {kind.partition(" ")[0] for kind in KINDS} == BESIDE_WEIGHTS


def test_a_disk_full_for_every_kind_of_file_is_one_sentence_and_the_run_goes_on(place):
    for kind, (within, path) in KINDS.items():
        done = place.run("--resume", fault=FullDisk(kind.partition(" ")[0], within))
        said = [line for line in place.words.splitlines() if line.startswith("gapo: ")]
        assert done == 2, f"{kind}: {place.words}"
        assert len(said) == 1
        assert f"{path} cannot be written: the disk is full" in said[0]
        left = [path for path in (place.folder / "OUT").rglob("*") if is_part(path)]
        assert left == [], kind
        checkpoints = in_order(place.folder / "OUT" / "checkpoints")
        assert newest_whole(place.folder / "OUT" / "checkpoints") == (checkpoints[-1] if checkpoints else None), kind
    assert place.run("--resume") == 0, place.words
    assert_same(place)


LINE = ("training/record.py", "_plain")  # called for every number of a step's line, 22 of them
GO_ON = "go on with gapo train mini model.name=model"


def test_asked_to_leave_it_saves_a_checkpoint_and_goes_on_to_the_same_bits(place):
    steps = place.folder / "OUT" / "checkpoints"
    assert place.run(point=Point(1, "runs/run.py", "_start", signal=signal.SIGTERM)) == 143, place.words
    assert f"gapo: left at once, and what was written is whole; {GO_ON}" in place.words

    never = ("--resume", "train.save_strategy=no")
    assert place.run(*never, point=Point(5, *LINE, signal=signal.SIGTERM)) == 143, place.words
    assert "asked to leave (SIGTERM): finishing the step, then saving a checkpoint" in place.words
    assert f"gapo: saved OUT/checkpoints/checkpoint-1; {GO_ON}" in place.words
    assert newest_whole(steps) == steps / "checkpoint-1"

    assert place.run("--resume", point=Point(5, *LINE, signal=signal.SIGINT)) == 130, place.words
    assert "press again to leave now" in place.words
    assert "going on from OUT/checkpoints/checkpoint-1" in place.words
    assert "gapo: saved OUT/checkpoints/checkpoint-2; " in place.words

    assert place.run("--resume", point=Point(5, *LINE, signal=signal.SIGINT, again=3)) == 130, place.words
    assert "gapo: left at once, and what was written is whole; " in place.words
    assert newest_whole(steps) == in_order(steps)[-1] == steps / "checkpoint-2"
    assert "Traceback" not in place.words

    assert place.run("--resume") == 0, place.words
    assert_same(place)


def test_a_second_run_in_the_folder_is_refused_while_the_first_is_there_and_no_longer(place):
    first = place.start(point=Point(30, *LINE, signal=signal.SIGSTOP))
    kills.wait_until_stopped(first.pid)
    for more in ((), ("--resume",)):
        assert place.run(*more) == 2
        holder = f"gapo: process {first.pid} on {socket.gethostname()} is at work in OUT; wait until it has ended"
        assert place.words.startswith(holder)
    first.kill()
    first.join()
    assert (place.folder / "OUT" / ".lock").is_file()
    assert place.run("--resume") == 0, place.words
    assert_same(place)


def test_killed_while_pairs_and_token_ids_are_put_into_the_cache_it_makes_them_again(place):
    stored = ("--resume", "data.cache_tokens=true")
    pairs = place.folder / "pairs.jsonl"
    pairs.write_text(pairs.read_text().replace("{", f'{{"note": "{"x" * 5000}", '))  # small files have no store
    for nth in (1, 2):  # the text of the pairs, then their ids
        assert place.run(*stored, point=Point(nth, "pairs/store_folder.py", "finish")) == -9
    assert place.run(*stored) == 0, place.words
    made = [path for kind in ("pairs", "tokens") for path in (place.folder / "cache" / kind).iterdir()]
    assert len([path for path in made if not is_part(path)]) == 2
    assert place.run("--resume") == 0, place.words
    assert "OUT is finished" in place.words
    (place.folder / "OUT" / "recipe.yaml").write_bytes((place.folder / "TRUTH" / "recipe.yaml").read_bytes())
    assert_same(place)


def test_under_a_clock_that_goes_back_it_ends_with_the_same_bits_and_no_time_is_negative(place):
    """A kill between checkpoints of which the newer looks older: the step says which is the newest, not the clock."""
    assert place.run(fault=BackwardsClock(), point=Point(80, *LINE)) == -9, place.words
    for step, path in enumerate(reversed(in_order(place.folder / "OUT" / "checkpoints"))):
        os.utime(path, (3600 * step, 3600 * step))
    assert place.run("--resume", fault=BackwardsClock()) == 0, place.words
    assert "going on from OUT/checkpoints/checkpoint-2" in place.words
    assert_same(place)
    assert json.loads((place.folder / "OUT" / "evals.json").read_text())["seconds"] >= 0
    lines = [json.loads(line) for line in (place.folder / "OUT" / "steps.jsonl").read_text().splitlines()]
    assert all(line["tokens_per_second"] > 0 for line in lines)
    assert not re.search(r"-\d+(\.\d+)? (s|min|h)\b", place.words)
