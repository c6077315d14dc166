"""Blocks of a document that are computed: what stands between `<!-- computed: NAME -->` and `<!-- end -->`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from gapo.storage import whole_file

Blocks = Mapping[str, Callable[[], str]]
BLOCK = re.compile(r"(<!-- computed: ([\w-]+) -->)\n.*?(<!-- end -->)", flags=re.DOTALL)


def filled(text: str, blocks: Blocks) -> str:
    """The document with these blocks computed anew; others stay as they are."""

    def computed(found: re.Match[str]) -> str:
        return f"{found[1]}\n{blocks[found[2]]()}\n{found[3]}" if found[2] in blocks else found[0]

    return BLOCK.sub(computed, text)


def fill(page: Path, blocks: Blocks) -> None:
    text = filled(page.read_text(encoding="utf-8"), blocks)
    with whole_file(page) as part:
        part.write_text(text, encoding="utf-8")
