"""Pairs on disk are the pairs in memory: the same file, read both ways, gives the same set and the same noise."""

from __future__ import annotations

import csv
import gzip
import json
import logging
import os
import pickle
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapo.errors import InputError
from gapo.pairs import files, store
from gapo.pairs.files import save_pairs
from gapo.pairs.formats import describe_bad_rows, load_pairs
from gapo.pairs.noise import flip
from gapo.pairs.pair import PairSet, unique_names
from gapo.pairs.store_folder import Store, new_store, publish
from gapo.pairs.stored_text import BLOCK, StoredPairs
from gapo.pairs.unique_ids import id_hash, renamed_rows


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GAPO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(files, "SMALL_FILE", 0)
    return tmp_path / "cache"


def random_rows(n: int, seed: int) -> list[dict[str, Any]]:
    """Good rows of every form, rows that are no pairs, contents and ids that occur twice, letters of all kinds."""
    rng = random.Random(seed)

    def text() -> str:
        return "".join(rng.choice('ab é漢\n🙂,"') for _ in range(rng.randint(1, 6))) + rng.choice("xy")

    rows: list[dict[str, Any]] = []
    for _ in range(n):
        row: dict[str, Any] = {"prompt": text(), "chosen": text() + "1", "rejected": text() + "2"}
        if rng.random() < 0.3:
            row["prompt"] = [{"role": "system", "content": text()}, {"role": "user", "content": text()}]
        if rng.random() < 0.3:
            row["flipped"] = rng.random() < 0.5
        if rng.random() < 0.3:
            row["subset"] = text()
        if rng.random() < 0.4:
            row["id"] = rng.choice(["a", "a-2", "a-2-2", "b", "b-3", text()])
        if rng.random() < 0.15:
            row[rng.choice(["chosen", "rejected", "prompt"])] = rng.choice(["", 3, None])
        rows.append(row)
        if rng.random() < 0.1:
            rows.append(dict(row))
    return rows


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    content = b"".join(json.dumps(row).encode() + b"\n" for row in rows) + b'{"broken": \n\xff\n'
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def both(path: Path, **options: Any) -> tuple[PairSet, PairSet]:
    memory, disk = load_pairs(path, cache=False, **options), load_pairs(path, cache=True, **options)
    assert isinstance(memory.pairs, tuple)
    assert isinstance(disk.pairs, StoredPairs)
    return memory, disk


def same(memory: PairSet, disk: PairSet) -> None:
    """Everything a pair holds, also where it came from, one by one and all together."""
    assert len(memory) == len(disk)
    assert memory == disk
    assert [pair.source for pair in memory] == [pair.source for pair in disk]
    assert [memory[i] for i in range(len(memory))] == [disk[i] for i in range(len(disk))]
    assert memory.ids == disk.ids
    assert memory.flipped == disk.flipped
    assert tuple(memory.bad_rows) == tuple(disk.bad_rows)
    assert memory.name == disk.name


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz"])
def test_a_set_on_disk_is_the_set_in_memory(tmp_path: Path, seed: int, name: str) -> None:
    memory, disk = both(written(tmp_path / name, random_rows(60, seed)))
    assert len(memory.bad_rows) > 2
    same(memory, disk)
    same(memory[5:20], disk[5:20])
    same(memory[::-3], disk[::-3])
    same(memory.take([7, 3, 5]), disk.take([7, 3, 5]))
    same(memory.take([7, 3, 7]), disk.take([7, 3, 7]))
    for one, other in zip(memory.split(0.4, seed), disk.split(0.4, seed), strict=True):
        same(one, other)
    assert describe_bad_rows(memory.bad_rows) == describe_bad_rows(disk.bad_rows)


@pytest.mark.parametrize("kind", ["random", "length", "none"])
@pytest.mark.parametrize("seed", range(3))
def test_noise_on_disk_is_noise_in_memory(tmp_path: Path, kind: str, seed: int) -> None:
    memory, disk = both(written(tmp_path / "t.jsonl", random_rows(60, seed)))
    for _ in range(2):  # the second time some pairs are flipped back
        (memory, mask), (disk, mask_on_disk) = flip(memory, 0.3, kind, seed), flip(disk, 0.3, kind, seed)
        assert mask == mask_on_disk
        same(memory, disk)
    same(memory.split(0.3)[1][2:9], disk.split(0.3)[1][2:9])


@pytest.mark.parametrize("limit", [1, 7, 30, 1000])
def test_a_limit_counts_pairs_and_the_bad_rows_before_it(tmp_path: Path, limit: int) -> None:
    same(*both(written(tmp_path / "t.jsonl", random_rows(40, 1)), limit=limit))


def test_more_than_a_block_is_read_and_written_in_blocks(tmp_path: Path) -> None:
    memory, disk = both(written(tmp_path / "t.jsonl", random_rows(2 * BLOCK + 100, 2)))
    same(memory, disk)
    far = list(range(0, len(memory), 40))  # too far apart to be read together
    same(memory.take(far), disk.take(far))


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet", "json", "json.gz"])
def test_every_kind_of_file_goes_to_disk(tmp_path: Path, suffix: str) -> None:
    rows = [{"prompt": f"p{i}", "chosen": f"a{i}", "rejected": "b"} for i in range(30)]
    pairs = load_pairs(rows)
    save_pairs(pairs, tmp_path / f"t.{suffix}")
    same(*both(tmp_path / f"t.{suffix}"))
    assert load_pairs(tmp_path / f"t.{suffix}", cache=True) == pairs


def test_few_pairs_stay_in_memory_and_many_do_not(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "STORED_FROM", 8)
    rows = [{"prompt": f"p{i}", "chosen": "a", "rejected": "b"} for i in range(9)]
    few, many = written(tmp_path / "few.jsonl", rows[:6]), written(tmp_path / "many.jsonl", rows)
    assert isinstance(load_pairs(few).pairs, tuple)
    assert not (cache / "pairs").exists()
    assert isinstance(load_pairs(many).pairs, StoredPairs)
    assert isinstance(load_pairs(many, limit=8).pairs, tuple)
    assert isinstance(load_pairs(many, cache=False).pairs, tuple)
    assert isinstance(load_pairs(rows).pairs, tuple)  # rows in memory are in memory


def test_a_warm_start_reads_neither_rows_nor_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "t.jsonl", random_rows(30, 3))
    os.utime(path, (1e9, 1e9))
    cold = load_pairs(path, cache=True)

    def nothing(*_: object) -> Iterator[object]:
        raise AssertionError("read again")

    monkeypatch.setattr(store, "parse_row", nothing)
    monkeypatch.setattr(store, "sha256", nothing)
    same(cold, load_pairs(path, cache=True))


def test_another_content_under_the_same_name_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    for word in ("one", "two", "one"):  # of the same size, and made to look as old
        written(path, [{"prompt": "p", "chosen": word, "rejected": "b"}])
        os.utime(path, (1e9, 1e9))
        same(*both(path))
        assert load_pairs(path, cache=True)[0].chosen == word


def test_strict_and_nothing_left_say_the_same(tmp_path: Path) -> None:
    mixed, bad = written(tmp_path / "t.jsonl", random_rows(40, 4)), written(tmp_path / "bad.jsonl", [{"prompt": "p"}])
    for path, strict in ((mixed, True), (bad, False)):
        said = []
        for choice in (False, True, True):
            with pytest.raises(InputError) as caught:
                load_pairs(path, strict=strict, cache=choice)
            said.append(str(caught.value))
        assert said[0] == said[1] == said[2]


def _cut(folder: Path) -> None:
    os.truncate(folder / "text.bin", 10)


def _change(folder: Path) -> None:
    content = bytearray((folder / "text.bin").read_bytes())
    content[7] ^= 1
    (folder / "text.bin").write_bytes(content)


def _lose(folder: Path) -> None:
    (folder / "marks.bin").unlink()


def _garble(folder: Path) -> None:
    (folder / "meta.json").write_text('{"format": 1')


@pytest.mark.parametrize("damage", [_cut, _change, _lose, _garble])
def test_a_damaged_store_is_noticed_and_made_again(
    tmp_path: Path, cache: Path, caplog: pytest.LogCaptureFixture, damage: Any
) -> None:
    path = written(tmp_path / "t.jsonl", random_rows(30, 5))
    memory, _ = both(path)
    (folder,) = (cache / "pairs").iterdir()
    damage(folder)
    with caplog.at_level(logging.WARNING, "gapo"):
        again = load_pairs(path, cache=True)
    assert "damaged" in caplog.text
    same(memory, again)
    caplog.clear()
    same(memory, load_pairs(path, cache=True))
    assert not caplog.text
    assert [entry.name for entry in (cache / "pairs").iterdir()] == [folder.name]


def test_an_interrupted_writer_leaves_nothing(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "t.jsonl", random_rows(30, 6))
    real, calls = store.parse_row, iter(range(20))

    def interrupted(row: object, source: str) -> Any:
        if next(calls) == 15:
            raise KeyboardInterrupt
        return real(row, source)

    monkeypatch.setattr(store, "parse_row", interrupted)
    with pytest.raises(KeyboardInterrupt):
        load_pairs(path, cache=True)
    assert not list((cache / "pairs").iterdir())


def test_what_a_kill_left_is_swept_away_later(tmp_path: Path, cache: Path) -> None:
    old, new = cache / "pairs" / ".old.part", cache / "pairs" / ".new.part"
    for part in (old, new):
        part.mkdir(parents=True)
        (part / "text.bin").write_bytes(b"half")
    for entry in (old, old / "text.bin"):
        os.utime(entry, (1e9, 1e9))
    load_pairs(written(tmp_path / "t.jsonl", random_rows(9, 1)), cache=True)
    assert new.exists()
    assert not old.exists()


def test_two_writers_at_once_do_no_harm(cache: Path) -> None:
    with new_store(cache / "x") as one, new_store(cache / "x") as two:
        for writer in (one, two):
            writer.column("numbers", "i4")
            writer.add("numbers", [1, 2, 3])
        first = publish(one, cache / "x" / "here")
        mapped, inode = first.column("numbers"), first.path.stat().st_ino
        second = publish(two, cache / "x" / "here")
    assert first.path.stat().st_ino == inode  # the first one serves both
    assert mapped.tolist() == second.column("numbers").tolist() == [1, 2, 3]
    assert [entry.name for entry in (cache / "x").iterdir()] == ["here"]


def test_a_cache_that_cannot_be_written_is_told_and_done_without(
    tmp_path: Path, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache.write_text("a file where the folder should be")
    path = written(tmp_path / "t.jsonl", random_rows(30, 7))
    with caplog.at_level(logging.WARNING, "gapo"):
        found = load_pairs(path, cache=True)
    assert "read into memory" in caplog.text
    same(load_pairs(path, cache=False), found)


def test_data_sets_and_streams_go_to_disk(tmp_path: Path) -> None:
    import datasets

    rows = [{"prompt": f"p{i}", "chosen": "a", "rejected": "b" if i % 9 else "a"} for i in range(40)]
    table = datasets.Dataset.from_list(rows)
    stream = datasets.IterableDataset.from_generator(lambda: iter(rows))
    for source in (table, table.to_iterable_dataset(), stream):
        memory, disk = load_pairs(source, cache=False), load_pairs(source, cache=True)
        assert isinstance(disk.pairs, StoredPairs)
        same(memory, disk)
        assert len(disk.bad_rows) == 5
        again = load_pairs(source, cache=True)
        assert isinstance(again.pairs, StoredPairs)
        assert again.pairs.store.path == disk.pairs.store.path


def test_a_store_is_small_to_send(tmp_path: Path) -> None:
    _, disk = both(written(tmp_path / "t.jsonl", random_rows(400, 8)))
    sent = pickle.dumps(disk[3:9].pairs)
    assert len(sent) < 2000
    assert pickle.loads(sent) == disk[3:9].pairs


def test_a_saved_set_is_the_same_from_disk_and_from_memory(tmp_path: Path) -> None:
    rows = [row | {"prompt": "p"} for row in random_rows(50, 9)]
    memory, disk = both(written(tmp_path / "t.jsonl", rows))
    for suffix in ("jsonl", "parquet", "csv"):
        save_pairs(memory, tmp_path / f"memory.{suffix}")
        save_pairs(disk, tmp_path / f"disk.{suffix}")
        assert (tmp_path / f"memory.{suffix}").read_bytes() == (tmp_path / f"disk.{suffix}").read_bytes()
    assert len(list(csv.reader((tmp_path / "disk.csv").open(newline="")))) == len(disk) + 1


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "c", "a-2", "a-3", "a-2-2", "b-2", "b-x", "-2", "a-2-3-2"]), max_size=14))
def test_ids_become_unique_as_in_memory(ids: list[str]) -> None:
    import numpy as np

    rows, names = renamed_rows(np.frombuffer(b"".join(map(id_hash, ids)), dtype="<u8"), iter(ids))
    found = list(ids)
    for row, name in zip(rows, names, strict=True):
        found[row] = name
    assert found == list(unique_names(ids))
    assert rows == sorted(rows)


def test_an_empty_column_opens(cache: Path) -> None:
    with new_store(cache) as writer:
        writer.ragged("none", "u1")
        opened = publish(writer, cache / "empty")
    assert len(Store(opened.path, verify=True).column("none")) == 0
