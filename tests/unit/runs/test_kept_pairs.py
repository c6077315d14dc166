"""What a run keeps of its pairs: how held-out ones came out, and texts within a stated limit."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest

import gapo
import tiny
from gapo.errors import InputError
from gapo.pairs.encode import Encoder
from gapo.runs import kept_pairs
from gapo.runs.kept_pairs import HELD_OUT, TEXTS, forget_texts, prompt_id, write_after, write_before, write_texts
from gapo.runs.recipe import differences, read_recipe, recipe_hash
from gapo.training.dataset import encoded_pairs
from runs_of_tests import text_rows


def found(count: int, start: float) -> dict[str, np.ndarray]:
    gain = np.linspace(start, start + 1, count)
    return {
        "gain": gain,
        "margin": gain / 2,
        "chosen_tokens": np.full(count, 3.0),
        "rejected_tokens": np.full(count, 4.0),
    }


def test_after_stands_beside_before(tmp_path):
    pairs = encoded_pairs(text_rows(5), Encoder(tiny.tiny_tokenizer()))
    write_before(tmp_path, pairs, found(5, -1.0))
    half = pq.read_table(tmp_path / HELD_OUT)
    assert half["gain_after"].null_count == 5
    write_after(tmp_path, pairs, found(5, 2.0))
    table = pq.read_table(tmp_path / HELD_OUT)
    assert table["gain_before"].to_pylist() == found(5, -1.0)["gain"].tolist()
    assert table["gain_after"].to_pylist() == found(5, 2.0)["gain"].tolist()
    assert table["margin_after"].to_pylist() == found(5, 2.0)["margin"].tolist()
    assert table["pair_id"].to_pylist() == [pair.id for pair in pairs.encoded]
    assert table["prompt_id"].to_pylist() == [prompt_id(pair.prompt) for pair in pairs.pairs]


def test_what_was_before_on_other_pairs_is_not_taken(tmp_path):
    encoder = Encoder(tiny.tiny_tokenizer())
    write_before(tmp_path, encoded_pairs(text_rows(5, seed=1), encoder), found(5, 0.0))
    write_after(tmp_path, encoded_pairs(text_rows(5, seed=2), encoder), found(5, 1.0))
    assert pq.read_table(tmp_path / HELD_OUT)["gain_before"].null_count == 5


def test_of_too_many_pairs_the_same_sample_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(kept_pairs, "TEXTS_KEPT", 6)
    monkeypatch.setattr(kept_pairs, "HELD_OUT_TEXTS_KEPT", 2)
    train, held_out = gapo.load_pairs(text_rows(20)), gapo.load_pairs(text_rows(4, seed=1))
    tables = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        write_texts(tmp_path / name, train, held_out, seed)
        tables.append(pq.read_table(tmp_path / name / TEXTS))
    assert tables[0].equals(tables[1])
    assert not tables[0].equals(tables[2])
    assert tables[0]["held_out"].to_pylist() == [False] * 6 + [True] * 2
    by_id = {pair.id: pair for pair in train}
    kept = [row for row in tables[0].to_pylist() if not row["held_out"]]
    assert all(
        (row["prompt"], row["chosen"]) == (by_id[row["pair_id"]].prompt, by_id[row["pair_id"]].chosen) for row in kept
    )


def test_texts_are_written_once_and_can_be_forgotten(tmp_path):
    write_texts(tmp_path, gapo.load_pairs(text_rows(3)), None, 0)
    before = (tmp_path / TEXTS).read_bytes()
    write_texts(tmp_path, gapo.load_pairs(text_rows(3, seed=9)), None, 0)
    assert (tmp_path / TEXTS).read_bytes() == before
    forget_texts(tmp_path)
    assert not (tmp_path / TEXTS).exists()
    forget_texts(tmp_path)


def test_keeping_texts_does_not_make_another_run():
    plain, without = read_recipe("mini"), read_recipe("mini", ["data.keep_texts=false"])
    assert "keep_texts" not in plain["data"]
    assert recipe_hash(plain) == recipe_hash(without)
    assert differences(plain, without) == []
    with pytest.raises(InputError, match=r"data\.keep_texts must be true or false"):
        read_recipe("mini", ["data.keep_texts=some"])
