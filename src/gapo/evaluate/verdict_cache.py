"""Verdicts kept on disk by their content: nothing that was paid for is asked again.

One line a verdict with its checksum, only ever appended. Every line begins with a line break of its own, so the half
line that a kill or another process leaves behind spoils nothing but itself.
"""

from __future__ import annotations

import logging
import os
import re
from dataclasses import asdict
from pathlib import Path

from gapo.errors import DiskTrouble, InputError
from gapo.evaluate.sealed_lines import opened, sealed
from gapo.evaluate.verdicts import OK, STATUSES, Reading
from gapo.storage import cache_folder, writing

logger = logging.getLogger("gapo")


class VerdictCache:
    """Readings by key. The last line of a key counts."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self._known = dict(_lines(self.path))

    @classmethod
    def of(cls, judge: str) -> VerdictCache:
        """The user's cache of this judge: one file a judge, so that none of them grows without end."""
        return cls(cache_folder("verdicts", re.sub(r"[^\w.-]+", "-", judge) + ".jsonl"))

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: str) -> Reading | None:
        return self._known.get(key)

    def forget_unreadable(self) -> None:
        """Do as if the verdicts that could not be read were not there."""
        self._known = {key: reading for key, reading in self._known.items() if reading.status == OK}

    def put(self, key: str, reading: Reading) -> None:
        """Known from now on, also to whoever reads the file after a kill: it is one write."""
        line = "\n" + sealed({"key": key, **asdict(reading)}) + "\n"
        try:
            with writing(self.path):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
                try:
                    _write_all(handle, line.encode("utf-8", "replace"))
                finally:
                    os.close(handle)
        except DiskTrouble:
            raise
        except OSError as error:
            raise InputError(f"a verdict cannot be kept in {self.path} ({error.strerror}); make room there") from None
        self._known[key] = reading


def _write_all(handle: int, line: bytes) -> None:
    """A full disk takes a part: then the rest raises."""
    while line:
        line = line[os.write(handle, line) :]


def _lines(path: Path) -> list[tuple[str, Reading]]:
    try:
        with open(path, encoding="utf-8", errors="replace") as lines:
            found = [_known(line) for line in lines if line.strip()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f"the cache of verdicts {path} cannot be read ({error.strerror})") from None
    if damaged := found.count(None):
        logger.warning("%d lines of %s are no whole verdicts; what they said is asked again", damaged, path)
    return [each for each in found if each is not None]


def _known(line: str) -> tuple[str, Reading] | None:
    """None for half a line, and for anything else that is no verdict."""
    try:
        content = opened(line) or {}
        key = content.pop("key")
        reading = Reading(**content)
    except (TypeError, KeyError):
        return None
    sound = isinstance(key, str) and reading.status in STATUSES and reading.weight in (1, 3)
    if reading.status == OK:
        sound = sound and isinstance(reading.preference, int | float) and 0 <= reading.preference <= 1
    else:
        sound = sound and reading.preference is None
    return (key, reading) if sound else None
