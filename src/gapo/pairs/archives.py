"""Archives from elsewhere: looked through before anything of them is read, and read no further than they say.

A wheel is a zip. Its checksum is known, so this is the second lock: one member that would be written outside its
folder, is a link, or has far more bytes than the archive has on disk, and nothing of it is read.
"""

from __future__ import annotations

import shutil
import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath

from gapo.errors import InputError
from gapo.storage import whole_file

MOST_MEMBERS = 10_000
MOST_BYTES = 2 * 2**30  # unpacked, all members together; the largest wheel we know has 140 MB
MOST_TIMES = 200  # a member's size unpacked over packed; text comes to 10, a bomb to 1000
SMALL = 2**20  # a megabyte of zeros is no bomb


@contextmanager
def opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """The archive, once every member was found harmless."""
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                _refuse(path, member)
            _refuse_bulk(path, archive.infolist())
            yield archive
    except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
        raise InputError(f"{path} is not a whole archive ({error}); remove it, and it is fetched again") from None


def unpack(archive: zipfile.ZipFile, name: str, folder: Path) -> Path:
    """One member as a file of this folder, under its bare name."""
    target = folder / PurePosixPath(name).name
    with archive.open(name) as member, whole_file(target) as part, open(part, "wb") as file:
        shutil.copyfileobj(member, file)  # ends where the member's header says, and its checksum is checked there
    return target


def _refuse(path: Path, member: zipfile.ZipInfo) -> None:
    name = member.orig_filename  # as it is written: zipfile mends some of what we want to see
    kind = stat.S_IFMT(member.external_attr >> 16)
    if PureWindowsPath(name).drive or name.startswith(("/", "\\")) or ".." in name.replace("\\", "/").split("/"):
        reason = "leads out of the folder it is unpacked to"
    elif "\\" in name or "\0" in name:
        reason = "has a name that systems read differently"
    elif kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        reason = "is a link or a device"
    elif member.flag_bits & 1:
        reason = "is encrypted"
    elif member.file_size > max(SMALL, MOST_TIMES * member.compress_size):
        reason = f"is more than {MOST_TIMES} times as large unpacked"
    else:
        return
    raise InputError(f"{path} is refused: its member {name[:200]!r} {reason}; do not use this file")


def _refuse_bulk(path: Path, members: list[zipfile.ZipInfo]) -> None:
    size = sum(member.file_size for member in members)
    if len(members) > MOST_MEMBERS or size > MOST_BYTES:
        raise InputError(
            f"{path} is refused: {len(members):,} members of {size:,} bytes unpacked, more than {MOST_MEMBERS:,} or "
            f"{MOST_BYTES:,}; do not use this file"
        )
    if len({member.filename for member in members}) < len(members):
        raise InputError(f"{path} is refused: it holds two members of one name; do not use this file")
