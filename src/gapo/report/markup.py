"""HTML that escapes by default: plain strings are data, only `Markup` is HTML."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from html import escape

VOID = frozenset({"meta", "br", "hr"})
JOINERS = "\u200c\u200d"  # part of Persian words and of emoji: invisible by right


class Markup(str):
    """Text that is HTML already. Only this module and `svg` make it."""

    __slots__ = ()


Child = str | Iterable["Child"] | None


def visible(text: str) -> str:
    """Spell out the characters that act instead of being seen: control, bidi overrides, lone surrogates.

    Right-to-left letters stay as they are; only what can reorder or hide other text is changed.
    """
    if text.replace("\n", "").replace("\t", "").isprintable():  # most text: a hundred times faster
        return text
    return "".join(character if _harmless(character) else _name(character) for character in text)


def text_of(value: object) -> str:
    """Any value as escaped text."""
    return escape(visible(str(value)), quote=True)


def tag(name: str, /, *children: Child, **attributes: str | int | bool | None) -> Markup:
    """One element; `class_` and `aria_label` are written class and aria-label, None and False are left out."""
    opening = name + "".join(_attribute(key, value) for key, value in attributes.items())
    if name in VOID:
        return Markup(f"<{opening}>")
    return Markup(f"<{opening}>{join(children)}</{name}>")


def join(children: Child) -> Markup:
    """Children one after the other, escaped unless they are HTML."""
    if children is None:
        return Markup("")
    if isinstance(children, Markup):
        return children
    if isinstance(children, str):
        return Markup(text_of(children))
    return Markup("".join(join(child) for child in children))


def _attribute(key: str, value: str | int | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{text_of(value)}"'


def _harmless(character: str) -> bool:
    if character in "\n\t" or character in JOINERS:
        return True
    kind = unicodedata.category(character)
    return kind not in {"Cc", "Cf", "Cs", "Zl", "Zp"} and ord(character) & 0xFFFE != 0xFFFE


def _name(character: str) -> str:
    return f"[U+{ord(character):04X}]"  # in letters every font has
