"""A page as a browser takes it apart: its elements, what they would load, what would run, and its words."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

DATA = ("text/plain", "application/json")  # kinds of script elements that no browser runs


class PageRead(HTMLParser):
    """`kinds`: every element with the names of its attributes; `scripts` would run, `styles` would apply."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.kinds: list[tuple[str, ...]] = []
        self.links: list[str] = []
        self.policies: list[str] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.before_policy: list[str] = []
        self.words = ""
        self._inside: list[str] | None = None
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = {name: value or "" for name, value in attrs}
        self.kinds.append((tag, *sorted(known)))
        self.links += [known[name] for name in ("href", "xlink:href", "action") if name in known]
        if known.get("http-equiv", "").lower() == "content-security-policy":
            self.policies.append(known["content"])
        elif not self.policies:
            self.before_policy.append(tag)
        self._inside = None
        if tag == "style":
            self._inside = self.styles
        elif tag == "script" and known.get("type") not in DATA:
            self._inside = self.scripts
        if self._inside is not None:
            self._inside.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self._inside = None

    def handle_endtag(self, tag: str) -> None:
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside is not None:
            self._inside[-1] += data
        else:
            self.words += data


def directives(policy: str) -> dict[str, list[str]]:
    parts = (part.split() for part in policy.split(";") if part.strip())
    return {name: values for name, *values in parts}


def hashes(texts: list[str]) -> list[str]:
    return [f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in texts]


def listening(kinds: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Elements that load, send, nest or listen."""
    loading = {"src", "srcset", "style", "background", "poster", "formaction", "ping", "srcdoc", "xlink:href"}
    elements = {"iframe", "object", "embed", "form", "link", "img", "base", "audio", "video", "frame", "foreignobject"}
    return [
        kind
        for kind in kinds
        if kind[0] in elements or any(name in loading or re.match("on", name) for name in kind[1:])
    ]
