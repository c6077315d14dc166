"""Answers on their way to a file: a line each beside it, so that a kill loses only what was under way."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gapo.errors import DiskTrouble, InputError
from gapo.evaluate.questions import Bench
from gapo.evaluate.sealed_lines import opened, sealed
from gapo.pairs.files import bare_name
from gapo.storage import add_line, on_disk


@dataclass(frozen=True)
class Made:
    """One answer. `finish`: "end" (the model ended it), "length" (cut), "no room" (the prompt fills the model)."""

    id: str
    text: str
    tokens: int | None
    finish: str


class Partial:
    """`<stem>.partial.jsonl`: first who makes the answers, then the answers. Made by another, it is refused."""

    def __init__(self, path: Path, maker: Mapping[str, Any]) -> None:
        self.path = path.with_name(f"{bare_name(path)}.partial.jsonl")
        self.maker = json.loads(json.dumps(maker))
        self.others = 0  # answers to questions that are not asked now

    def read(self, bench: Bench) -> dict[str, Made]:
        """What is there already for these questions."""
        lines = list(self._lines())
        if not lines:
            return {}
        other = difference(lines[0].get("maker") or {}, self.maker)
        if other:
            raise InputError(f"{self.path} is unfinished, with {other}; remove it or choose another --out")
        prompts = {each.id: each.prompt for each in bench.questions}
        found: dict[str, Made] = {}
        for line in lines[1:]:
            if line.get("id") in prompts and prompts[line["id"]] == line.get("prompt"):
                found[line["id"]] = Made(line["id"], line["output"], line["tokens"], line["finish"])
            else:
                self.others += 1
        return found

    def keep(self, made: Sequence[Made], bench: Bench) -> None:
        """Add answers; they are on the disk when this returns."""
        prompts = {each.id: each.prompt for each in bench.questions}
        try:
            if not self._lines():
                add_line(self.path, sealed({"maker": self.maker}))
            for each in made:
                row = {"id": each.id, "prompt": prompts[each.id], "output": each.text}
                add_line(self.path, sealed({**row, "tokens": each.tokens, "finish": each.finish}))
            on_disk(self.path)
        except DiskTrouble:
            raise
        except OSError as error:
            raise InputError(f"{self.path} cannot be written ({error.strerror}); choose another --out") from None

    def finish(self) -> None:
        """The file is written: what is in it need not stay here; answers to other questions do."""
        if not self.others:
            self.path.unlink(missing_ok=True)

    def _lines(self) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        lines = self.path.read_text("utf-8", errors="replace").split("\n")
        return [content for line in lines if (content := opened(line)) is not None]


def difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """The first thing two makers differ in, in words; "" if nothing."""
    if before.get("model") != now["model"]:
        return f"answers of {before.get('model')}, not of {now['model']}"
    old, new = before.get("decoding") or {}, json.loads(json.dumps(now["decoding"]))
    changed = [key for key in {**new, **old} if old.get(key) != new.get(key)]
    if "weights" in changed:
        return f"answers of other weights under the name {now['model']}"
    return f"{changed[0]} {old.get(changed[0])!r}, not {new.get(changed[0])!r}" if changed else ""
