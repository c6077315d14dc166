"""The figures of an audit, each a function of columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure

from gapo.diagnostics.intervals import Numbers
from gapo.report.figures import CLEAN_COLOUR, FLIPPED_COLOUR, PERCENT, SCATTER_UP_TO, SERIES, SIZE, dress, legend
from gapo.report.svg import INK

BINS = 40
ENDS = (0.5, 99.5)  # percentiles: one odd pair must not press all others into a bar


def histogram(values: Numbers, label: str, marked: Numbers | None = None, names: Sequence[str] = ()) -> Figure:
    """The share of pairs by value; clean and marked ones apart where the marks are known."""
    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.add_subplot()
    dress(axes, "share of pairs", label)
    finite = values[np.isfinite(values)]
    low, high = np.percentile(finite, ENDS)
    edges = np.histogram_bin_edges(np.clip(finite, low, high), bins=min(BINS, max(6, int(len(finite) ** 0.5))))
    parts: list[tuple[Numbers, str, str | None]] = [(values, SERIES[0], None)]
    if marked is not None:
        parts = [(values[marked == k], (CLEAN_COLOUR, FLIPPED_COLOUR)[k], names[k]) for k in (0, 1)]
    for part, colour, name in parts:
        part = part[np.isfinite(part)]
        counts, _ = np.histogram(np.clip(part, low, high), edges)
        axes.stairs(counts / max(1, len(part)), edges, color=colour, fill=True, alpha=0.18)
        axes.stairs(counts / max(1, len(part)), edges, color=colour, linewidth=1.6, label=name)
    axes.yaxis.set_major_formatter(PERCENT)
    if marked is not None:
        legend(axes)
    return figure


def cloud(across: Numbers, up: Numbers, labels: tuple[str, str], *, diagonal: bool = False) -> Figure:
    """Every pair as a point, or as a density where there are many; the outermost lie on the edge."""
    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.add_subplot()
    dress(axes, labels[1], labels[0])
    known = np.isfinite(across) & np.isfinite(up)
    x, y = (np.clip(side[known], *np.percentile(side[known], ENDS)) for side in (across, up))
    if diagonal:
        ends = (min(x.min(), y.min()), max(x.max(), y.max()))
        axes.plot(ends, ends, color=INK, linewidth=0.8, alpha=0.5, linestyle=(0, (4, 3)))
    elif x.min() < 0 < x.max():
        axes.axvline(0, color=INK, linewidth=0.6, alpha=0.5)
    _points(axes, x, y)
    return figure


def _points(axes: Axes, x: Numbers, y: Numbers) -> None:
    if len(x) <= SCATTER_UP_TO:
        axes.scatter(x, y, s=14, color=SERIES[0], alpha=0.6, linewidths=0)
        return
    rgb = to_rgb(SERIES[0])
    density = LinearSegmentedColormap.from_list("density", [(*rgb, 0.12), (*rgb, 1.0)])
    axes.hexbin(x, y, gridsize=(26, 14), mincnt=1, cmap=density, bins="log", linewidths=0)


def areas(names: Sequence[str], values: Sequence[float], bounds: Sequence[tuple[float, float]]) -> Figure:
    """The area under ROC of each signal with its interval; the line is chance."""
    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.add_subplot()
    dress(axes, "", "area under ROC")
    axes.axvline(0.5, color=INK, linewidth=1, alpha=0.6, linestyle=(0, (4, 3)))
    for place, (value, ends) in enumerate(zip(values, bounds, strict=True)):
        axes.plot(ends, (place, place), color=SERIES[0], linewidth=6, alpha=0.28, solid_capstyle="butt")
        axes.plot(value, place, marker="o", markersize=7, color=SERIES[0])
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    return figure
