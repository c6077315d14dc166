"""What is saved comes back the same, and a failure leaves the old file."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapo.errors import InputError
from gapo.pairs import writers
from gapo.pairs.files import save_pairs
from gapo.pairs.formats import load_pairs
from gapo.pairs.pair import Message, PairSet, PreferencePair

TEXTS = PairSet(
    (
        PreferencePair("p", "a", "b", flipped=True, subset="s"),
        PreferencePair("p", " two\r\nlines, \"q\" 'x' \u2028\x85", "é 漢 \U0001f600", flipped=False),
        PreferencePair("lone\rreturn", "1", "true", id="mine"),
        PreferencePair("p", "a", "b"),
    )
)
CHATS = PairSet(
    (
        PreferencePair((Message("system", "s"), Message("user", "u")), "a", "b", flipped=False),
        PreferencePair((Message("user", "u"), Message("assistant", "v"), Message("user", "w")), " c", "d", subset="t"),
    )
)
TEXT_KINDS = ["jsonl", "json", "csv", "jsonl.gz", "json.gz", "csv.gz"]


@pytest.mark.parametrize("suffix", [*TEXT_KINDS, "parquet"])
def test_texts_come_back_the_same(tmp_path: Path, suffix: str) -> None:
    save_pairs(TEXTS, tmp_path / f"out.{suffix}")
    back = load_pairs(tmp_path / f"out.{suffix}", strict=True)
    assert back == TEXTS
    assert (back.ids, back.flipped) == (TEXTS.ids, (True, False, None, None))
    assert [path.name for path in tmp_path.iterdir()] == [f"out.{suffix}"]


@pytest.mark.parametrize("suffix", ["jsonl", "json", "jsonl.gz", "parquet"])
def test_conversations_come_back_the_same(tmp_path: Path, suffix: str) -> None:
    save_pairs(CHATS, str(tmp_path / "new" / f"out.{suffix}"))
    assert load_pairs(tmp_path / "new" / f"out.{suffix}", strict=True) == CHATS


def test_a_set_without_marks_has_no_columns_for_them(tmp_path: Path) -> None:
    save_pairs(PairSet((PreferencePair("p", "a", "b"),)), tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().splitlines()[0] == "id,prompt,chosen,rejected"


def test_mixed_prompts_fit_jsonl_only(tmp_path: Path) -> None:
    mixed = PairSet((*TEXTS, *CHATS))
    save_pairs(mixed, tmp_path / "out.jsonl")
    assert load_pairs(tmp_path / "out.jsonl") == mixed
    with pytest.raises(InputError, match=r"these pairs have both; save as \.jsonl"):
        save_pairs(mixed, tmp_path / "out.parquet")


def test_csv_refuses_conversations_and_keeps_the_old_file(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    out.write_text("old")
    with pytest.raises(InputError, match=r"save as \.jsonl or \.parquet"):
        save_pairs(CHATS, out)
    assert out.read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]


def test_a_crash_half_way_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(pairs: PairSet, out: object) -> None:
        out.write(b"half")  # type: ignore[attr-defined]
        raise KeyboardInterrupt

    out = tmp_path / "out.jsonl"
    out.write_text("old")
    monkeypatch.setitem(writers.WRITERS, "jsonl", crash)
    with pytest.raises(KeyboardInterrupt):
        save_pairs(TEXTS, out)
    assert out.read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]


def test_places_that_cannot_be_written_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.jsonl").mkdir()
    for path in (tmp_path / "file" / "out.jsonl", tmp_path / "folder.jsonl"):
        with pytest.raises(InputError, match="cannot be written"):
            save_pairs(TEXTS, path)
    with pytest.raises(InputError, match="unknown kind"):
        save_pairs(TEXTS, tmp_path / "out.txt")


def test_equal_pairs_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        save_pairs(TEXTS, tmp_path / name)
    first, second = ((tmp_path / name).read_bytes() for name in ("a.jsonl.gz", "b.jsonl.gz"))
    assert first == second
    assert first[4:8] == bytes(4), "the time of writing is in the file"
