"""The figures of a study: each a function of an exhibit and its table. One colour for each method, in all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from gapo.report.figures import PERCENT, ROUND, SERIES, dress
from gapo.report.label_places import apart
from gapo.report.svg import INK
from gapo.studies import exhibits
from gapo.studies.exhibits import METHOD, Column
from gapo.studies.names import METHOD_NAMES, method_name
from gapo.studies.rows import Row, Rows, grouped, number

COLOURS = {
    "gapo": SERIES[0],
    "simpo": SERIES[1],
    "dpo": SERIES[2],
    "dr_dpo": SERIES[3],
    "robust_dpo": SERIES[4],
    "alpha_dpo": SERIES[5],
    "rdpo": SERIES[6],
    "kto": SERIES[7],
    "ipo": "#c2569a",
    "cpo": "#5b6bd6",
    "orpo": "#7a9a1f",
    "gradnorm": "#b8860b",
    "length_only": "#6b7f3a",
    "simpo_sam": "#a0522d",
    "cdpo": "#4a8fa8",
    "consensus": "#b5489e",
    "consensus_dpo": "#8a2f6b",
    "consensus_gapo": "#7d5a9e",
    "start": "#9aa3ad",
}
BY_NAME = {METHOD_NAMES[key]: colour for key, colour in COLOURS.items()}
WIDTH, PANEL_HEIGHT, ROW_HEIGHT = 7.6, 3.5, 0.34  # inches
LABEL_SIZE = 10.5


def draw(exhibit: exhibits.Figure, rows: Rows) -> Figure:
    """The figure of an exhibit."""
    return _DRAWERS[type(exhibit)](exhibit, rows)


def colour_of(label: str, place: int = 0) -> str:
    """A method's own colour, also where the label says more than its name; other labels go by their place."""
    if label in COLOURS or label in BY_NAME:
        return COLOURS.get(label) or BY_NAME[label]
    words = [name for name in BY_NAME if label.startswith(name)]
    return BY_NAME[max(words, key=len)] if words else SERIES[place % len(SERIES)]


@dataclass(frozen=True)
class _Spot:
    """A point that wants its name beside it."""

    x: float
    y: float
    label: str
    colour: str


def _curves(exhibit: exhibits.Curves, rows: Rows) -> Figure:
    groups = grouped(rows, [exhibit.panels.key]) if exhibit.panels else {(exhibit.title,): rows}
    figure = Figure(figsize=(WIDTH if len(groups) == 1 else 2 * WIDTH * 0.72, PANEL_HEIGHT), layout="constrained")
    panels = figure.subplots(1, len(groups), sharey=True, squeeze=False)[0]
    named = []
    for axes, (key, group) in zip(panels, groups.items(), strict=True):
        dress(axes, exhibit.y.head if axes is panels[0] else "", exhibit.x.head)
        _format(axes, exhibit.x, exhibit.y)
        series = grouped(group, [exhibit.series.key])
        spots = [
            spot
            for place, ((name,), part) in enumerate(series.items())
            if (spot := _curve(axes, exhibit, str(name), part, place)) is not None
        ]
        if exhibit.panels:
            axes.set_title(_label(str(key[0]), exhibit.panels), loc="left", fontsize=12, color=INK, parse_math=False)
        named.append((axes, spots, sorted({float(row[exhibit.x.key]) for row in group})))
    for axes, spots, measured in named:  # once all panels are drawn: they share their limits
        _name_at_right(axes, spots)
        if _far_enough(measured, axes):
            axes.set_xticks(measured)
    return figure


def _curve(axes: Axes, exhibit: exhibits.Curves, name: str, rows: Rows, place: int) -> _Spot | None:
    known = [row for row in rows if number(row.get(exhibit.y.key)) is not None]
    known.sort(key=lambda row: row[exhibit.x.key])
    if not known:
        return None
    x, y = ([row[column.key] for row in known] for column in (exhibit.x, exhibit.y))
    colour = colour_of(name, place)
    bounds = [_bounds(row, exhibit.y.key) for row in known]
    if all(bound is not None for bound in bounds):
        low, high = zip(*[bound for bound in bounds if bound is not None], strict=True)
        axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.plot(x, y, color=colour, linewidth=2, marker="o", markersize=4.5)
    return _Spot(x[-1], y[-1], _label(name, exhibit.series), colour)


def _dots(exhibit: exhibits.Dots, rows: Rows) -> Figure:
    groups = grouped(rows, [exhibit.panels.key]) if exhibit.panels else {("",): rows}
    sizes = [len(group) for group in groups.values()]
    height = 0.9 + ROW_HEIGHT * sum(sizes) + 0.34 * (len(groups) - 1)
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    panels = figure.subplots(len(groups), 1, sharex=True, squeeze=False, height_ratios=[size + 0.6 for size in sizes])
    for axes, ((title,), group) in zip(panels[:, 0], groups.items(), strict=True):
        dress(axes, "", exhibit.value.head if axes is panels[-1, 0] else "")
        _format(axes, exhibit.value, None)
        if exhibit.log:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        names = [str(row[exhibit.label.key]) for row in group]
        for place, (row, name) in enumerate(zip(group, names, strict=True)):
            _dot(axes, row, exhibit.value.key, place, colour_of(name))
        axes.set_yticks(range(len(group)), [_label(name, exhibit.label) for name in names], parse_math=False)
        axes.set_ylim(len(group) - 0.4, -0.6)
        axes.grid(axis="y", visible=False)
        if title:
            axes.set_title(str(title), loc="left", fontsize=11, color=INK, parse_math=False)
    return figure


def _dot(axes: Axes, row: Row, key: str, place: int, colour: str) -> None:
    value, bounds = number(row.get(key)), _bounds(row, key)
    if value is None:
        return
    if bounds is not None:
        axes.plot(bounds, (place, place), color=colour, linewidth=6, alpha=0.28, solid_capstyle="butt")
    axes.plot(value, place, marker="o", markersize=7, color=colour)


def _points(exhibit: exhibits.Points, rows: Rows) -> Figure:
    figure = Figure(figsize=(WIDTH, PANEL_HEIGHT * 1.15), layout="constrained")
    axes = figure.add_subplot()
    dress(axes, exhibit.y.head, exhibit.x.head)
    _format(axes, exhibit.x, exhibit.y)
    spots = []
    for place, row in enumerate(rows):
        x, y = number(row.get(exhibit.x.key)), number(row.get(exhibit.y.key))
        if x is None or y is None:
            continue
        name = str(row[exhibit.label.key])
        colour = colour_of(name, place)
        across, up = _bounds(row, exhibit.x.key), _bounds(row, exhibit.y.key)
        if across is not None:
            axes.plot(across, (y, y), color=colour, linewidth=4, alpha=0.28, solid_capstyle="butt")
        if up is not None:
            axes.plot((x, x), up, color=colour, linewidth=4, alpha=0.28, solid_capstyle="butt")
        axes.plot(x, y, marker="o", markersize=7, color=colour)
        spots.append(_Spot(x, y, _label(name, exhibit.label), colour))
    _name_at_right(axes, spots)
    return figure


def _cloud(exhibit: exhibits.Cloud, rows: Rows) -> Figure:
    series = _series(exhibit.series, rows)
    figure = Figure(figsize=(WIDTH if len(series) == 1 else 2 * WIDTH * 0.72, PANEL_HEIGHT), layout="constrained")
    panels = figure.subplots(1, len(series), squeeze=False)[0]
    for axes, (label, colour, part) in zip(panels, series, strict=True):
        dress(axes, exhibit.y.head if axes is panels[0] else "", exhibit.x.head)
        _format(axes, exhibit.x, exhibit.y)
        x, y = ([row[column.key] for row in part] for column in (exhibit.x, exhibit.y))
        axes.scatter(x, y, s=9, alpha=0.45, linewidths=0, color=colour)
        axes.set_title(label, loc="left", fontsize=12, color=INK, parse_math=False)
    return figure


def _histogram(exhibit: exhibits.Histogram, rows: Rows) -> Figure:
    figure = Figure(figsize=(WIDTH, PANEL_HEIGHT), layout="constrained")
    axes = figure.add_subplot()
    dress(axes, "share", exhibit.value.head)
    _format(axes, exhibit.value, None)
    known = [float(row[exhibit.value.key]) for row in rows if number(row.get(exhibit.value.key)) is not None]
    edges = np.histogram_bin_edges(known, bins=min(60, max(8, int(len(known) ** 0.5))))
    for label, colour, part in _series(exhibit.series, rows):
        values = [float(row[exhibit.value.key]) for row in part if number(row.get(exhibit.value.key)) is not None]
        counts, _ = np.histogram(values, edges)
        axes.stairs(counts / max(1, len(values)), edges, color=colour, fill=True, alpha=0.18)
        axes.stairs(counts / max(1, len(values)), edges, color=colour, linewidth=1.6, label=label)
    axes.yaxis.set_major_formatter(PERCENT)
    _key(axes, exhibit.series)
    return figure


def _series(column: Column | None, rows: Rows) -> list[tuple[str, str, Rows]]:
    if column is None:
        return [("", SERIES[0], rows)]
    parts = grouped(rows, [column.key]).items()
    return [(_label(str(key), column), colour_of(str(key), place), part) for place, ((key,), part) in enumerate(parts)]


def _key(axes: Axes, column: Column | None) -> None:
    if column is not None:
        axes.legend(frameon=False, labelcolor=INK, fontsize=LABEL_SIZE)


def _name_at_right(axes: Axes, spots: Sequence[_Spot]) -> None:
    """Names stand in a column at the right, far enough apart to be read, each with a thin line to its point."""
    if not spots:
        return
    left, right = axes.get_xlim()
    bottom, top = axes.get_ylim()
    column = right + 0.03 * (right - left)
    longest = max(len(spot.label) for spot in spots)
    axes.set_xlim(left, right + (0.06 + 0.021 * longest * _crowding(axes)) * (right - left))
    places = apart([spot.y for spot in spots], 0.062 * (top - bottom), bottom, top)
    for spot, place in zip(spots, places, strict=True):
        axes.plot((spot.x, column), (spot.y, place), color=spot.colour, linewidth=0.7, alpha=0.6)
        axes.text(
            column, place, f" {spot.label}", color=spot.colour, va="center", fontsize=LABEL_SIZE, parse_math=False
        )
    axes.set_ylim(min(bottom, *places) if len(places) > 1 else bottom, max(top, *places) if len(places) > 1 else top)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=ROUND))
    axes.set_xticks([tick for tick in axes.get_xticks() if left <= tick <= right])


def _far_enough(values: Sequence[float], axes: Axes) -> bool:
    """Whether the measured values themselves can be the ticks: a few, with room for their labels."""
    gaps = [after - before for before, after in pairwise(values)]
    return 0 < len(gaps) <= 5 and min(gaps) > 0.15 * _crowding(axes) * (values[-1] - values[0])


def _crowding(axes: Axes) -> float:
    """A narrow panel needs a larger share of its width for the same name."""
    spec = axes.get_subplotspec()
    panels = spec.get_gridspec().ncols if spec is not None else 1
    return 1.0 if panels == 1 else panels / 1.44


def _format(axes: Axes, x: Column, y: Column | None) -> None:
    for axis, column in ((axes.xaxis, x), (axes.yaxis, y)):
        if column is not None and column.kind in (exhibits.PERCENT, exhibits.SHARE):
            axis.set_major_formatter(PERCENT)
        elif column is not None and column.kind == exhibits.POINTS:
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:+.3g}"))
        elif column is not None and column.kind == exhibits.SECONDS:
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} s"))


def _bounds(row: Row, key: str) -> tuple[float, float] | None:
    low, high = number(row.get(f"{key}_low")), number(row.get(f"{key}_high"))
    return None if low is None or high is None else (low, high)


def _label(name: str, column: Column) -> str:
    return method_name(name) if column.kind == METHOD else name


_DRAWERS: dict[type, Callable[[Any, Rows], Figure]] = {
    exhibits.Curves: _curves,
    exhibits.Dots: _dots,
    exhibits.Points: _points,
    exhibits.Cloud: _cloud,
    exhibits.Histogram: _histogram,
}
