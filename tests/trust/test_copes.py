"""Input that is odd but sound: it must work, and say what was done."""

from __future__ import annotations

import json

import pytest
from bad_models import settings, template
from corpus import PAIRS, jsonl, told

import tiny
from gapo.errors import InputError
from gapo.pairs.encode import Encoder
from gapo.pairs.formats import load_pairs
from gapo.pairs.pair import Message

EVAL = ("eval", "reward", "model", "--data", "pairs.jsonl", "--out", "evals", "--quiet")


def test_a_tokenizer_without_a_pad_token_works(place, monkeypatch, capsys):
    settings("tokenizer_config.json", pad_token=None)(place / "model")
    assert told(EVAL, monkeypatch, capsys) == (0, "")


def test_a_tokenizer_without_a_template_reads_conversations_as_transcripts(place, monkeypatch, capsys):
    (place / "model" / "chat_template.jinja").unlink()
    row = {"prompt": [{"role": "user", "content": "hello"}], "chosen": "yes", "rejected": "no"}
    (place / "pairs.jsonl").write_bytes(jsonl(row, {**row, "chosen": "fine"}))
    assert told(EVAL, monkeypatch, capsys) == (0, "")
    with pytest.raises(InputError, match=r"has no chat template; use 'auto' or 'none'"):
        Encoder(tiny.tiny_tokenizer(), template="chat")


def test_a_broken_template_does_not_matter_where_it_is_not_used(place, monkeypatch, capsys):
    template("{% for %}")(place / "model")
    assert told(EVAL, monkeypatch, capsys) == (0, "")


def test_an_endless_template_is_stopped(monkeypatch):
    monkeypatch.setattr("gapo.pairs.encode.RENDERING", 0.2)
    loop = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    with pytest.raises(InputError, match=r"not done after 0.2 seconds\); mend it"):
        Encoder(tiny.tiny_tokenizer(loop)).prompt_ids((Message("user", "hello"),))


def test_an_id_twice_is_made_two(place):
    (place / "pairs.jsonl").write_bytes(jsonl(*({**row, "id": "same"} for row in PAIRS)))
    found = load_pairs(place / "pairs.jsonl")
    assert len(set(found.ids)) == len(PAIRS)
    assert found.ids[0] == "same"


def test_a_prompt_longer_than_the_model_costs_its_pair_alone(place, monkeypatch, capsys):
    (place / "pairs.jsonl").write_bytes(jsonl(*PAIRS, {**PAIRS[0], "prompt": "cat " * 500}))
    assert told(EVAL[:-1], monkeypatch, capsys)[0] == 0
    found = json.loads((place / "evals" / "reward.json").read_text())
    assert (found["pairs"], found["left_out"]) == (len(PAIRS), 1)


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b""])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\n\n"])
def test_marks_and_ends_of_lines_do_not_matter(mark, end, place):
    (place / "pairs.jsonl").write_bytes(mark + end.join(json.dumps(row).encode() for row in PAIRS))
    (place / "p.csv").write_bytes(mark + end.join([b"prompt,chosen,rejected", b"a,b,c", b"d,e,f"]))
    assert (len(load_pairs(place / "pairs.jsonl")), len(load_pairs(place / "p.csv"))) == (len(PAIRS), 2)
