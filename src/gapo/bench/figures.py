"""Two figures: seconds per pair of every variant, and how they grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from gapo.bench.arithmetic import Spread
from gapo.bench.growth import AXES, Curve
from gapo.report.figures import SERIES, dress
from gapo.report.svg import INK

NEUTRAL, ACCENT, SECOND = "#9aa3ad", SERIES[0], SERIES[1]


@dataclass(frozen=True)
class Bar:
    """One variant: its name, seconds per pair, whether it is ours, and its ratio in words."""

    label: str
    seconds: Spread
    ours: bool
    note: str


def bars(rows: Sequence[Bar], title: str) -> Figure:
    """Medians as bars, the least and greatest as whiskers; the first row is on top."""
    figure = Figure(figsize=(7.6, 0.9 + 0.42 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    dress(axes, "", "seconds per pair (median; whiskers: least and greatest)")
    furthest = max(row.seconds.high for row in rows)
    for place, row in enumerate(rows):
        found = row.seconds
        axes.barh(place, found.value, height=0.62, color=ACCENT if row.ours else NEUTRAL)
        reach = [[found.value - found.low], [found.high - found.value]]
        axes.errorbar(found.value, place, xerr=reach, fmt="none", ecolor=INK, elinewidth=1.1, capsize=3)
        words = f"{found.value:.3g} s" + (f"  ({row.note})" if row.note else "")
        axes.text(found.high + 0.015 * furthest, place, words, va="center", color=INK, fontsize=11, parse_math=False)
    axes.set_yticks(range(len(rows)), [row.label for row in rows], parse_math=False)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, furthest * 1.75)  # room for the words
    axes.grid(axis="y", visible=False)
    axes.set_title(title, color=INK, fontsize=11.5, loc="left", parse_math=False)
    return figure


def growth(measured: Sequence[Curve]) -> Figure:
    """Four panels, both scales logarithmic: a straight line is a power law, its slope the exponent."""
    figure = Figure(figsize=(8.4, 6.2), layout="constrained")
    for axes, axis in zip(figure.subplots(2, 2).flat, AXES, strict=True):
        _panel(axes, axis, [curve for curve in measured if curve.axis == axis])
    return figure


def _panel(axes: Axes, axis: str, measured: Sequence[Curve]) -> None:
    dress(axes, "seconds per pair", axis)
    axes.set_xscale("log")
    axes.set_yscale("log")
    for curve, colour, mark in zip(measured, (SECOND, ACCENT), ("s", "o"), strict=False):
        label = curve.variant
        if curve.growth is not None:
            error = f" ± {curve.growth.error:.2f}" if curve.growth.error == curve.growth.error else ""
            label += f": exponent {curve.growth.exponent:.2f}{error}"
            fitted = [curve.growth.factor * x**curve.growth.exponent for x in curve.x]
            axes.plot(curve.x, fitted, color=colour, linewidth=1, linestyle=(0, (4, 3)))
        axes.plot(curve.x, curve.y, color=colour, marker=mark, markersize=5, linewidth=1.6, label=label)
    if axis != AXES[-1] and measured:
        axes.set_xticks(sorted({x for curve in measured for x in curve.x}))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    else:
        axes.xaxis.set_major_locator(LogLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1e6:g} M"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=8))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    if measured:
        axes.legend(loc="lower right", bbox_to_anchor=(1, 0.99), frameon=False, labelcolor=INK, fontsize=10)
