"""Everything a person may name as a source, and what is said when it is not there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gapo.pairs import sources
from gapo.pairs.formats import load_pairs
from gapo.pairs.pair import PairSet

GOOD = {"prompt": "p", "chosen": "a", "rejected": "b"}
OTHER = {"prompt": "q", "chosen": "c", "rejected": "d"}
Lines = Callable[..., Path]
Said = Callable[[Callable[[], object]], str]


def test_a_missing_file_is_answered_with_the_nearest(tmp_path: Path, lines: Lines, message: Said) -> None:
    lines(tmp_path / "train.jsonl", GOOD)
    near = message(lambda: load_pairs(tmp_path / "trian.jsonl"))
    assert near.endswith(f"trian.jsonl does not exist; did you mean {str(tmp_path / 'train.jsonl')!r}?")
    assert "did you mean" in message(lambda: load_pairs(str(tmp_path / "train")))
    assert "does not exist; check the path" in message(lambda: load_pairs(tmp_path / "zzz.csv"))
    assert "nor does its folder" in message(lambda: load_pairs(tmp_path / "no" / "zzz.csv"))


def test_a_folder_has_one_file_for_each_split(tmp_path: Path, lines: Lines, message: Said) -> None:
    assert "holds no data file" in message(lambda: load_pairs(tmp_path))
    lines(tmp_path / "test.jsonl.gz", OTHER)
    assert load_pairs(tmp_path)[0].prompt == "q"
    lines(tmp_path / "train.jsonl", GOOD)
    assert load_pairs(str(tmp_path))[0].prompt == "p"
    assert load_pairs(f"{tmp_path}:test")[0].prompt == "q"
    assert load_pairs(tmp_path, split="test")[0].prompt == "q"
    assert "did you mean 'test'?" in message(lambda: load_pairs(tmp_path, split="tests"))


def test_a_lone_file_has_no_other_split_than_its_own(tmp_path: Path, lines: Lines, message: Said) -> None:
    path = lines(tmp_path / "pairs.jsonl", GOOD)
    assert len(load_pairs(path, split="train")) == len(load_pairs(path, split="pairs")) == 1
    assert "is one file without splits" in message(lambda: load_pairs(path, split="test"))
    (tmp_path / "list.json").write_text(json.dumps([GOOD]))
    assert "is one file without splits" in message(lambda: load_pairs(tmp_path / "list.json", split="test"))


def test_embedded_sets_go_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: Lines, message: Said) -> None:
    monkeypatch.setattr(sources, "EMBEDDED", tmp_path)
    assert "no set comes with this installation" in message(lambda: load_pairs("courtesy"))
    (tmp_path / "courtesy").mkdir()
    lines(tmp_path / "courtesy" / "train.jsonl.gz", GOOD)
    lines(tmp_path / "courtesy" / "test.jsonl", OTHER)
    assert load_pairs("courtesy")[0].prompt == "p"
    assert load_pairs("courtesy:test").name == "courtesy:test"
    assert load_pairs("courtesy", split="test")[0].prompt == "q"
    assert "'courtesy' has no split 'tst'; did you mean 'test'?" in message(lambda: load_pairs("courtesy:tst"))
    assert "unknown data set 'curtesy'; did you mean 'courtesy'?" in message(lambda: load_pairs("curtesy"))


def test_the_hub_is_asked_for_an_id(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    asked = []

    def load_dataset(name: str, split: str) -> datasets.Dataset:
        asked.append((name, split))
        return datasets.Dataset.from_list([GOOD, {**GOOD, "chosen": ""}])

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert load_pairs("org/name").bad_rows[0].source == "org/name:2"
    load_pairs("org/name:train_prefs", limit=1)
    load_pairs("org/name", split="test[:10%]", limit=1)
    assert asked == [("org/name", "train"), ("org/name", "train_prefs"), ("org/name", "test[:10%]")]


def test_a_failing_hub_is_one_sentence(monkeypatch: pytest.MonkeyPatch, message: Said) -> None:
    import datasets

    def load_dataset(name: str, split: str) -> None:
        raise ConnectionError("no route\nto host")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    said = message(lambda: load_pairs("org/name"))
    assert said.startswith("could not fetch 'org/name', split 'train', from Hugging Face (no route); check name")


def test_data_sets_and_rows_in_memory_are_sources(message: Said) -> None:
    import datasets

    chat = {
        "prompt": [{"role": "user", "content": "hi"}],
        "chosen": [{"role": "assistant", "content": "a"}],
        "rejected": [{"role": "assistant", "content": "b"}],
    }
    data = datasets.Dataset.from_list([chat])
    pairs = load_pairs(data, name="mine")
    assert (pairs[0].prompt[0].content, pairs[0].chosen, pairs.name) == ("hi", "a", "mine")  # type: ignore[union-attr]
    assert load_pairs(pairs.to_dataset()) == pairs
    assert load_pairs(datasets.DatasetDict(train=data, test=data), split="test") == pairs
    assert load_pairs(data.to_iterable_dataset()) == pairs
    assert load_pairs([chat, 3]).bad_rows[0].source == "rows:2"  # type: ignore[list-item]
    assert "no column 'chosen' and 'rejected'" in message(lambda: load_pairs(datasets.Dataset.from_list([{"a": 1}])))
    assert "cannot read pairs from int" in message(lambda: load_pairs(3))  # type: ignore[arg-type]
    assert "rows is empty" in message(lambda: load_pairs([]))


def test_a_pair_set_is_returned_as_it_is() -> None:
    pairs = load_pairs([GOOD, OTHER])
    assert load_pairs(pairs) is pairs
    assert load_pairs(pairs, limit=1) == PairSet(pairs.pairs[:1])
    assert load_pairs(pairs, name="new").name == "new"


def test_ids_stay_unique_where_a_suffixed_id_is_taken() -> None:
    ids = load_pairs([{**GOOD, "id": name} for name in ("a", "a", "a-2", "a")]).ids
    assert ids[:2] == ("a", "a-2")
    assert len(set(ids)) == 4


def test_json_splits_are_chosen_by_name(tmp_path: Path, message: Said) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"train": [GOOD], "test": [OTHER], "note": "n"}))
    assert load_pairs(path, split="test")[0].prompt == "q"
    assert load_pairs(f"{path}:test")[0].prompt == "q"
    assert "has no split 'tset'; did you mean 'test'?" in message(lambda: load_pairs(path, split="tset"))


@pytest.mark.parametrize("key", ["data", "train", "rows"])
def test_json_may_hold_one_list_under_a_name(tmp_path: Path, key: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({key: [GOOD]}))
    assert len(load_pairs(path)) == 1


def test_json_lines_in_a_json_file_are_understood(tmp_path: Path, lines: Lines) -> None:
    assert len(load_pairs(lines(tmp_path / "x.json", GOOD, OTHER))) == 2
    assert len(load_pairs(lines(tmp_path / "one.json", GOOD))) == 1
