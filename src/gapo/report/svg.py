"""A matplotlib figure as SVG that lives inside the page: its ink is the page's ink, and it loads nothing."""

from __future__ import annotations

import io
import re
import warnings
from typing import TYPE_CHECKING

import matplotlib

from gapo.report.markup import Markup, text_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#123456"  # figures draw text and axes in this colour; the page's own text colour takes its place


def inline_svg(figure: Figure, *, key: str, label: str) -> Markup:
    """`key` keeps the ids of several figures on one page apart; `label` is read out by a screen reader."""
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": key}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # the reader's browser has the fonts, not matplotlib
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    drawing = buffer.getvalue()
    drawing = drawing[drawing.index("<svg") :]
    drawing = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--.*?-->", "", drawing, flags=re.DOTALL)
    drawing = re.sub(r'style="([^"]*)"', _as_attributes, drawing)  # the page's policy forbids style attributes
    drawing = re.sub(r'(\sid="|url\(#|href="#)', rf"\g<1>{key}-", drawing).replace("xlink:href", "href")
    drawing = re.sub(r' d="[^"]*"', _shorter, drawing).replace(INK, "currentColor")
    return Markup(re.sub(r"<svg[^>]*>", lambda head: _head(head.group(), label), drawing, count=1))


def svg_file(figure: Figure, *, key: str, label: str) -> str:
    """The same drawing as a file that stands alone: dark ink on white, whatever page shows it."""
    drawing = inline_svg(figure, key=key, label=label)
    look = 'xmlns="http://www.w3.org/2000/svg" color="#23272e" font-family="system-ui, Helvetica, Arial, sans-serif"'
    head, rest = drawing.split(">", 1)
    return f'{head.replace("<svg", f"<svg {look}")}><rect width="100%" height="100%" fill="#ffffff"/>{rest}'


def _as_attributes(style: re.Match[str]) -> str:
    pairs = (part.split(":", 1) for part in style.group(1).split(";") if ":" in part)
    kept = ((name.strip(), value.strip()) for name, value in pairs)
    return " ".join(f'{name}="{value}"' for name, value in kept if name != "font-family")  # the page's font


def _shorter(path: re.Match[str]) -> str:
    """A hundredth of a point is finer than a screen; the page is a third smaller."""
    return re.sub(r"(\.\d\d)\d+", r"\1", path.group().replace("\n", ""))


def _head(head: str, label: str) -> str:
    box = re.search(r'viewBox="[^"]*"', head)
    return f'<svg {box.group() if box else ""} role="img" aria-label="{text_of(label)}">'
