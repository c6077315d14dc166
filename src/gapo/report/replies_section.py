"""Replies before and after training, with what changed marked word by word."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from gapo.report.elements import paragraph, said, together
from gapo.report.markup import Markup, tag
from gapo.report.run_files import Run
from gapo.report.wording import counted

REPLIES_SHOWN = 12
REPLY_LENGTH = 4000  # characters; a model that does not stop should not be the whole page
ALIKE = 0.25  # of two replies with less in common every word would be marked
NOTE = "Words that training took away are struck through on the left, words it brought are marked on the right."


def replies_section(run: Run) -> Markup:
    """The first replies side by side."""
    found = (run.evals or {}).get("replies")
    replies = [reply for reply in found if isinstance(reply, Mapping)] if isinstance(found, list) else []
    if not replies:
        return paragraph("No replies were kept in this run.")
    rest = len(replies) - REPLIES_SHOWN
    more = paragraph(f"{rest} more in evals.json.", "soft") if rest > 0 else None
    return together(paragraph(NOTE, "soft"), [_reply(reply) for reply in replies[:REPLIES_SHOWN]], more)


def _reply(reply: Mapping[str, Any]) -> Markup:
    before, after = _words(reply.get("before")), _words(reply.get("after"))
    marked = zip(("before", "after"), changes(before, after), strict=True)
    title = {"before": "before", "after": "after" if before != after else "after: the same"}
    sides = (tag("div", tag("h3", title[name], class_="soft"), _side(parts), class_="side") for name, parts in marked)
    return tag(
        "div", said(_words(reply.get("prompt")), "said prompt"), tag("div", sides, class_="sides"), class_="reply"
    )


def _side(parts: Sequence[Markup | str]) -> Markup:
    return tag("p", parts if any(parts) else "(nothing)", class_="said", dir="auto")


def changes(before: str, after: str) -> tuple[list[Markup | str], list[Markup | str]]:
    """Both texts in pieces; what is only in the first is `del`, what is only in the second `ins`."""
    old, new = (re.findall(r"\s+|[^\s\w]|\w+", text) for text in (before, after))
    match = SequenceMatcher(None, old, new, autojunk=False)
    kept = sum(not piece.isspace() for at, _, size in match.get_matching_blocks() for piece in old[at : at + size])
    words = sum(not piece.isspace() for piece in (*old, *new))
    if before == after or 2 * kept < ALIKE * words:
        return [before], [after]
    left: list[Markup | str] = []
    right: list[Markup | str] = []
    for same, gone, come in _stretches(match, old, new):
        if same:
            left.append(gone)
            right.append(come)
            continue
        left += [tag("del", gone)] if gone.strip() else [gone]
        right += [tag("ins", come)] if come.strip() else [come]
    return left, right


def _stretches(match: SequenceMatcher[str], old: Sequence[str], new: Sequence[str]) -> list[tuple[bool, str, str]]:
    """What is the same and what is not; a space between two changes belongs to both of them."""
    found: list[tuple[bool, str, str]] = []
    for kind, start, end, new_start, new_end in match.get_opcodes():
        gone, come = "".join(old[start:end]), "".join(new[new_start:new_end])
        same = kind == "equal"
        if not same and len(found) > 1 and not found[-1][1].strip():
            (_, space, _), (_, earlier_gone, earlier_come) = found.pop(), found.pop()
            gone, come = f"{earlier_gone}{space}{gone}", f"{earlier_come}{space}{come}"
        found.append((same, gone, come))
    return found


def _words(value: object) -> str:
    """A prompt may be a conversation; anything else that is not text is shown as JSON."""
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(turn, Mapping) for turn in value):
        value = "\n".join(f"{turn.get('role', '?')}: {turn.get('content', '')}" for turn in value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    rest = len(text) - REPLY_LENGTH
    return f"{text[:REPLY_LENGTH]} \u2026 ({counted(rest, 'more character')})" if rest > 0 else text
