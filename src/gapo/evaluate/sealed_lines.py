"""Lines of JSON that tell whether they are as they were written: each carries a checksum of its own content."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

SEAL = "crc32"


def sealed(content: Mapping[str, Any]) -> str:
    """The content as one line of valid UTF-8, with its checksum."""
    written = json.loads(json.dumps(content, ensure_ascii=False).encode("utf-8", "replace"))  # half a character: "?"
    return json.dumps({**written, SEAL: _checksum(written)}, ensure_ascii=False)


def opened(line: str) -> dict[str, Any] | None:
    """What was written; None for half a line and for one that was damaged since.

    Lines from before there were checksums have none and are taken as they are.
    """
    try:
        content = json.loads(line)
    except ValueError:
        return None
    if not isinstance(content, dict):
        return None
    seal = content.pop(SEAL, None)
    return content if seal is None or seal == _checksum(content) else None


def _checksum(content: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())
