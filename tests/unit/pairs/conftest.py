"""What the tests of reading share: a file from rows, and the sentence of an error."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gapo.errors import InputError


@pytest.fixture
def lines() -> Callable[..., Path]:
    """Rows, or raw bytes, as the lines of a file."""

    def write(path: Path, *rows: dict[str, Any] | bytes) -> Path:
        content = b"".join((row if isinstance(row, bytes) else json.dumps(row).encode()) + b"\n" for row in rows)
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
        return path

    return write


@pytest.fixture
def message() -> Callable[[Callable[[], object]], str]:
    """What a person reads when this call fails: one sentence, and no chain of tracebacks."""

    def said(call: Callable[[], object]) -> str:
        with pytest.raises(InputError) as caught:
            call()
        assert caught.value.__suppress_context__ or caught.value.__context__ is None
        assert "\n" not in str(caught.value)
        return str(caught.value)

    return said
