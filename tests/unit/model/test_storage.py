"""Files appear whole or not at all."""

import pytest

from gapo.storage import cache_folder, clear_parts, sha256, whole_file, whole_folder


class Trouble(Exception):
    pass


def test_a_file_is_replaced_whole_and_an_error_leaves_the_old_one(tmp_path):
    path = tmp_path / "deep" / "a.txt"
    with whole_file(path) as part:
        part.write_text("old")
    with pytest.raises(Trouble), whole_file(path) as part:
        part.write_text("half of the ne")
        raise Trouble
    assert path.read_text() == "old"
    assert [p.name for p in path.parent.iterdir()] == ["a.txt"]
    assert path.stat().st_mode & 0o044


def test_a_folder_appears_whole(tmp_path):
    with pytest.raises(Trouble), whole_folder(tmp_path / "x") as part:
        (part / "f").write_text("1")
        raise Trouble
    assert list(tmp_path.iterdir()) == []
    with whole_folder(tmp_path / "x") as part:
        (part / "f").write_text("1")
    assert (tmp_path / "x" / "f").read_text() == "1"


def test_the_cache_is_where_the_user_says(tmp_path, monkeypatch):
    monkeypatch.setenv("GAPO_CACHE", str(tmp_path))
    assert cache_folder("a", "b") == tmp_path / "a" / "b"
    monkeypatch.delenv("GAPO_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "c"))
    assert cache_folder() == tmp_path / "c" / "gapo"


def test_sha256_is_the_usual_one(tmp_path):
    (tmp_path / "x").write_bytes(b"abc")
    assert sha256(tmp_path / "x") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_what_a_kill_left_half_written_is_cleared_and_nothing_else(tmp_path):
    (tmp_path / ".a.txt.k3x1.part").write_text("half of")
    (tmp_path / ".model.k3x1.part").mkdir()
    (tmp_path / ".model.k3x1.part" / "f").write_text("1")
    for name in ("a.txt", ".hidden", "b.part"):
        (tmp_path / name).write_text("whole")
    clear_parts(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".hidden", "a.txt", "b.part"]
    clear_parts(tmp_path / "nowhere")
