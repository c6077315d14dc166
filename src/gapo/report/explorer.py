"""The pair explorer: a table and a scatter of pairs that select each other, in a page that loads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np

from gapo.report.elements import paragraph, table, together
from gapo.report.markup import Markup, tag
from gapo.report.pair_blocks import packed
from gapo.report.pair_view import PairColumn, PairView, Value
from gapo.report.tables import Table
from gapo.report.wording import NONE, counted, plain

PLAIN_ROWS = 20
PLAIN_COLUMNS = ("weight", "gap", "margin", "self_share", "chosen_tokens", "rejected_tokens", "flipped", "subset")
NO_SCRIPT = "Sorting, filtering and opening pairs needs JavaScript, which is off or not allowed here."


def explorer(view: PairView) -> Markup:
    """The explorer of these pairs, as the content of a section."""
    notes = [paragraph(note, "soft") for note in view.notes]
    if not view.ids:
        return together(*notes, paragraph("There are no pairs to look at."))
    pairs = packed(view)
    data = (
        tag("script", Markup(pairs.light), type="text/plain", class_="explorer-light"),
        *(tag("script", Markup(block), type="text/plain", class_="explorer-block") for block in pairs.blocks),
    )
    return together(*notes, tag("div", _without_script(view), *data, class_="explorer"))


def _without_script(view: PairView) -> Markup:
    """What the page says until, or where, its script does not run: the pairs trusted least, in a plain table."""
    order, said = _least_trusted(view)
    columns = _plain_columns(view)
    rows = tuple((view.ids[i], *(shown(column.values[i]) for column in columns)) for i in order)
    caption = f"{said} of {counted(len(view.ids), 'pair')}"
    plain_table = table(Table(("pair", *(column.title for column in columns)), rows), caption=caption, kind="ids")
    return tag("div", paragraph(NO_SCRIPT, "soft"), plain_table, class_="explorer-plain")


def _least_trusted(view: PairView) -> tuple[list[int], str]:
    for key, sign, said in (("weight", 1, "Least weight"), ("gap", -1, "Greatest gap")):
        column = view.column(key)
        if column is not None:
            values = np.array([_number(value) for value in column.values])
            order = np.argsort(sign * values, kind="stable")  # unknown ones last
            return [int(i) for i in order[:PLAIN_ROWS]], f"{said}: {min(PLAIN_ROWS, len(order))}"
    return list(range(min(PLAIN_ROWS, len(view.ids)))), f"First {min(PLAIN_ROWS, len(view.ids))}"


def _plain_columns(view: PairView) -> Sequence[PairColumn]:
    known = [column for key in PLAIN_COLUMNS if (column := view.column(key)) is not None]
    return known or list(view.columns[: len(PLAIN_COLUMNS)])


def _number(value: Value) -> float:
    return float(value) if isinstance(value, int | float) and isfinite(value) else float("nan")


def shown(value: Value) -> str:
    """A value in a cell."""
    if value is None:
        return NONE
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    return value if isinstance(value, str) else plain(float(value))
