"""The page's building blocks: a whole document, a table, a panel with a figure, cards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from gapo.report import explorer_assets
from gapo.report.markup import Child, Markup, join, tag
from gapo.report.smoothing import Columns
from gapo.report.style import STYLE, policy
from gapo.report.svg import inline_svg
from gapo.report.tables import Table


@dataclass(frozen=True)
class Panel:
    """A curve of the page: what it needs from steps.jsonl, and what a reader should look for."""

    key: str
    title: str
    caption: str
    needs: tuple[str, ...]
    draw: Callable[[Columns], Figure]


@dataclass(frozen=True)
class Section:
    """A part of the page that the contents line leads to."""

    key: str
    title: str
    content: Child


def document(title: str, head: Child, sections: Sequence[Section]) -> str:
    """A whole page; what it may load (nothing) and run (only its own script) is said before anything else."""
    links = (tag("a", part.title, href=f"#{part.key}") for part in sections)
    main = tag("main", (tag("section", tag("h2", part.title, id=part.key), part.content) for part in sections))
    live = explorer_assets.OPENING in main
    style = STYLE + explorer_assets.style() if live else STYLE
    script = explorer_assets.script() if live else None
    meta = (
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy(style, script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        tag("style", Markup(style)),
    )
    runs = "runs only the script that is in it" if live else "runs no script"
    body = (
        tag("header", head, tag("nav", links, aria_label="Contents")),
        main,
        tag("footer", f"Written by gapo report. The page is one file: it loads nothing and {runs}."),
        None if script is None else tag("script", Markup(script)),
    )
    return f"<!doctype html>\n{tag('html', tag('head', meta), tag('body', body), lang='en')}\n"


def table(rows: Table, *, caption: str, kind: str | None = None) -> Markup:
    """A table that scrolls sideways by itself on a narrow screen."""
    header = tag("thead", tag("tr", (tag("th", name, scope="col") for name in rows.header)))
    lines = (
        tag("tr", tag("th", row[0], scope="row"), (tag("td", cell, dir="auto" if kind else None) for cell in row[1:]))
        for row in rows.rows
    )
    inner = tag("table", tag("caption", caption), header, tag("tbody", lines), class_=kind)
    return tag("div", inner, class_="scroll", role="region", aria_label=caption, tabindex=0)


def figure(drawn: Figure, *, key: str, title: str, caption: str) -> Markup:
    """A figure with its title above and what to look for below."""
    return tag("figure", tag("h3", title), inline_svg(drawn, key=key, label=title), tag("figcaption", caption))


def missing(title: str, reason: str) -> Markup:
    """A figure that cannot be drawn says why, in its place."""
    return tag("figure", tag("h3", title), tag("figcaption", reason), class_="missing")


def cards(items: Sequence[tuple[str, str, str]]) -> Markup:
    """Key numbers: what it is, the number, a note."""
    return tag(
        "dl",
        (
            tag(
                "div", tag("dt", name), tag("dd", value, class_="number"), tag("dd", note, class_="note"), class_="card"
            )
            for name, value, note in items
        ),
        class_="cards",
    )


def with_care(warnings: Sequence[str]) -> Markup:
    """Warnings in words, near the top; nothing where there are none."""
    if not warnings:
        return Markup("")
    return tag("div", tag("h2", "Read with care"), tag("ul", (tag("li", line) for line in warnings)), class_="care")


def paragraph(text: str, kind: str | None = None) -> Markup:
    """A paragraph of text."""
    return tag("p", text, class_=kind)


def said(text: str, kind: str = "said") -> Markup:
    """Words of a person or a model: line breaks kept, right-to-left where they are."""
    return tag("p", text or "(nothing)", class_=kind, dir="auto")


def together(*parts: Child) -> Markup:
    """Parts one after the other."""
    return join(parts)
