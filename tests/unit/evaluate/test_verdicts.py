"""Verdicts on disk: what was written is read again, after a kill and beside another process too."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gapo.errors import InputError
from gapo.evaluate.verdict_cache import VerdictCache
from gapo.evaluate.verdicts import (
    EMPTY,
    FAILED,
    OK,
    TRUNCATED,
    Judging,
    Reading,
    Verdict,
    read_judging,
    write_judging,
)


def verdict(number: int, status: str = OK, preference: float | None = 0.25) -> Verdict:
    return Verdict(str(number), 0, True, preference, 1, status, 'say "é\n', f"key{number}", 3, 4, "koala")


def judging(*verdicts: Verdict) -> Judging:
    options = {"temperature": 0.0, "read_by": {"text": 1}}
    return Judging("b", "v1", False, "ours", "theirs", "j", "j-1", "p@1", {"top_p": 0.9}, options, verdicts)


def test_a_judging_comes_back_as_it_went(tmp_path):
    first = judging(verdict(0), verdict(1, EMPTY, None), verdict(2, FAILED, None))
    write_judging(first, tmp_path / "new" / "folder")
    assert read_judging(tmp_path / "new" / "folder") == first
    assert first.counts == {OK: 1, EMPTY: 1, FAILED: 1}
    assert json.loads((tmp_path / "new" / "folder" / "judging.json").read_text())["counts"] == first.counts


def test_a_folder_without_a_judging_says_so(tmp_path):
    with pytest.raises(InputError, match=r"judging.json is missing.*gapo judge"):
        read_judging(tmp_path)
    write_judging(judging(verdict(0)), tmp_path)
    (tmp_path / "verdicts.jsonl").write_text('{"id": "0"')
    with pytest.raises(InputError, match="cannot be read"):
        read_judging(tmp_path)


def test_the_cache_knows_what_it_was_told(tmp_path):
    path = tmp_path / "deep" / "verdicts.jsonl"
    cache = VerdictCache(path)
    assert cache.get("a") is None
    reading = Reading(0.125, OK, 3, "so\nit is [[A>>B]] \u2028", "j-1", "text")
    cache.put("a", reading)
    cache.put("b", Reading(None, TRUNCATED))
    assert VerdictCache(path).get("a") == cache.get("a") == reading
    again = VerdictCache(path)
    again.forget_unreadable()
    assert (again.get("a"), again.get("b"), len(again)) == (reading, None, 1)


def test_the_last_verdict_of_a_content_counts(tmp_path):
    cache = VerdictCache(tmp_path / "v.jsonl")
    cache.put("a", Reading(None, EMPTY))
    cache.put("a", Reading(0.5))
    assert VerdictCache(cache.path).get("a") == Reading(0.5)


def test_wherever_a_line_is_cut_the_others_are_whole(tmp_path):
    cache = VerdictCache(tmp_path / "v.jsonl")
    cache.put("a", Reading(1.0))
    whole = cache.path.read_bytes()
    cache.put("b", Reading(0.75, text="ünï"))
    both = cache.path.read_bytes()
    for end in range(len(whole), len(both) + 1):
        cache.path.write_bytes(both[:end])
        later = VerdictCache(cache.path)
        assert later.get("a") == Reading(1.0)
        assert later.get("b") in (None, Reading(0.75, text="ünï"))
        later.put("c", Reading(0.5))
        assert VerdictCache(cache.path).get("c") == Reading(0.5)


@pytest.mark.parametrize(
    "line",
    [
        "null",
        "[]",
        "{}",
        '{"key": "x", "preference": 2}',
        '{"key": "x", "preference": null}',
        '{"key": "x", "preference": 0.5, "status": "empty"}',
        '{"key": 3, "preference": 0.5}',
        '{"key": "x", "preference": 0.5, "weight": 2}',
        '{"key": "x", "preference": NaN}',
        '{"key": "x", "preference": 0.5, "colour": "red"}',
    ],
)
def test_what_is_no_verdict_is_not_believed(tmp_path, line):
    (tmp_path / "v.jsonl").write_text(line + "\n")
    assert len(VerdictCache(tmp_path / "v.jsonl")) == 0


def test_two_processes_write_to_one_cache(tmp_path):
    code = (
        "import sys; from pathlib import Path; from gapo.evaluate.verdict_cache import VerdictCache;"
        "from gapo.evaluate.verdicts import Reading\n"
        "cache = VerdictCache(Path(sys.argv[1]))\n"
        "for n in range(300): cache.put(f'{sys.argv[2]}{n}', Reading(0.5, text=sys.argv[2] * 5000))"
    )
    path = tmp_path / "v.jsonl"
    both = [subprocess.Popen([sys.executable, "-c", code, str(path), name]) for name in "xy"]
    assert [each.wait(60) for each in both] == [0, 0]
    assert len(VerdictCache(path)) == 600


def test_each_judge_has_a_file_of_its_own(monkeypatch, tmp_path):
    monkeypatch.setenv("GAPO_CACHE", str(tmp_path))
    assert VerdictCache.of("org/judge:7b").path == Path(tmp_path, "verdicts", "org-judge-7b.jsonl")
