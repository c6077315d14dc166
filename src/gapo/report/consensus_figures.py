"""Labels judged by the other pairs, in pictures: `python -m gapo.report.consensus_figures docs`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from scipy.stats import t as student

from gapo.consensus.direction import along_others, units
from gapo.consensus.mixture import SHAPES, Mixture, Numbers, fit_with_interval
from gapo.evaluate.markdown import markdown_table
from gapo.report.consensus_world import COUNTS, PAIRS, RATES, Found, found, world
from gapo.report.figures import CLEAN_COLOUR, FLIPPED_COLOUR, PERCENT, SERIES, dress
from gapo.report.svg import INK, svg_file
from gapo.runs.computed import fill
from gapo.storage import whole_file

SHOWN = (-0.25, 0.45)  # alignments
RIGHT, WRONG, THIRD = CLEAN_COLOUR, FLIPPED_COLOUR, SERIES[2]


def arrows(seen: Found) -> Figure:
    """The pairs' gradients with the direction of the others, and one pair with either label."""
    figure = Figure(figsize=(8.6, 4.2), layout="constrained")
    everyone, one = figure.subplots(1, 2)
    rows = units(torch.from_numpy(seen.plane.gradients)).numpy()
    pair = int(np.flatnonzero(seen.plane.wrong)[0])
    others = np.delete(rows, pair, axis=0).sum(0)
    direction = others / np.linalg.norm(others)
    alignment = float(along_others(torch.from_numpy(rows), torch.arange(len(rows)))[pair])
    for axes in (everyone, one):
        _round(axes)
        _arrow(axes, 1.25 * direction, INK, 2.4)
    for row, wrong in zip(rows, seen.plane.wrong, strict=True):
        _arrow(everyone, row, WRONG if wrong else RIGHT, 1.5)
    everyone.set_title("every pair's gradient, made of length 1", color=INK, fontsize=12, loc="left")
    everyone.text(*(1.3 * direction), "the others", color=INK, fontsize=11, ha="center", va="bottom")
    _say(everyone, 0.7, 0.1, [("label right", RIGHT), ("label wrong", WRONG)])
    for row, colour, label in ((-rows[pair], RIGHT, "right"), (rows[pair], WRONG, "wrong")):
        a = alignment if label == "wrong" else -alignment
        _arrow(one, row, colour, 2.0)
        foot = a * direction
        one.plot([row[0], foot[0]], [row[1], foot[1]], color=colour, linewidth=0.9, linestyle=(0, (4, 3)))
        one.plot(*foot, "o", color=colour, markersize=5)
        words = f"label {label}\na = {a:.2f}".replace("-", "\u2212")
        one.text(*(1.28 * row), words, color=colour, fontsize=11, ha="center", va="center")
    one.set_title("one of them, with either label", color=INK, fontsize=12, loc="left")
    return figure


def mixture(seen: Found) -> Figure:
    """Alignments of all pairs, and the two densities that were fitted without knowing which labels are wrong."""
    figure = Figure(figsize=(7.2, 3.9), layout="constrained")
    axes = figure.add_subplot()
    dress(axes, "pairs", "alignment a with the others")
    a, wrong, fitted = seen.many.alignment, seen.many.wrong, seen.mixture
    edges = np.linspace(*SHOWN, 36)
    each = len(a) * (edges[1] - edges[0])
    axes.hist([a[~wrong], a[wrong]], edges.tolist(), stacked=True, color=[RIGHT, WRONG], alpha=0.45)
    x = np.linspace(edges[0], edges[-1], 200)
    axes.plot(x, each * (1 - fitted.rate) * density(fitted, x), color=RIGHT, linewidth=2)
    axes.plot(x, each * fitted.rate * density(fitted, -x), color=WRONG, linewidth=2)
    axes.axvline(0, color=INK, linewidth=0.8, alpha=0.6)
    axes.set_xlim(edges[0], edges[-1])
    _say(
        axes,
        0.66,
        0.93,
        [
            ("bars: right and wrong labels", INK),
            ("(1 \u2212 rate) f(a)", RIGHT),
            ("rate f(\u2212a)", WRONG),
            (f"rate {fitted.rate:.2f}, true rate {wrong.mean():.2f}", INK),
            (f"interval {fitted.low:.2f} to {fitted.high:.2f}", INK),
        ],
    )
    return figure


def density(fitted: Mixture, a: Numbers) -> Numbers:
    """f: the density of right labels' alignments."""
    z = (a[:, None] - np.array(fitted.levels)) / fitted.width
    return np.asarray(student(SHAPES[fitted.shape][1]).pdf(z) @ np.array(fitted.shares) / fitted.width)


def trust(seen: Found) -> Figure:
    """From the alignment to the probability of a wrong label, and from there to what a pair counts."""
    figure = Figure(figsize=(8.6, 3.7), layout="constrained")
    left, right = figure.subplots(1, 2)
    a, wrong = seen.many.alignment, seen.many.wrong
    p = seen.mixture.wrong(a)
    x = np.linspace(*SHOWN, 100)
    dress(left, "p, probability of a wrong label", "alignment a with the others")
    left.plot(x, seen.mixture.wrong(x), color=INK, linewidth=2)
    for marks, colour, height in ((~wrong, RIGHT, -0.06), (wrong, WRONG, 1.06)):
        ends = np.tile([height - 0.03, height + 0.03, np.nan], marks.sum())  # one path of all marks
        left.plot(np.repeat(a[marks], 3), ends, color=colour, linewidth=0.7)
    left.axhline(0.5, color=INK, linewidth=0.6, linestyle=(0, (4, 3)))
    caught, hurt = int((p > 0.5)[wrong].sum()), int((p > 0.5)[~wrong].sum())
    above = (
        ("above \u00bd:", INK),
        (f"{caught} of {wrong.sum()} wrong labels", WRONG),
        (f"{hurt} of {(~wrong).sum()} right ones", RIGHT),
    )
    _say(left, 0.48, 0.77, above)
    dress(right, "what the pair counts", "p, probability of a wrong label")
    share = np.linspace(0, 1, 101)
    right.axhline(0, color=INK, linewidth=0.8)
    right.plot(share, 1 - 2 * share, color=THIRD, linewidth=2)
    right.plot(share, 1 - share, color=INK, linewidth=1.4, linestyle=(0, (4, 3)))
    right.fill_between(share[50:], 1 - 2 * share[50:], color=THIRD, alpha=0.15, linewidth=0)
    right.text(0.60, -0.8, "turned round", color=THIRD, fontsize=11, ha="center")
    right.text(0.03, 0.2, "1 \u2212 2p", color=THIRD, fontsize=11)
    right.text(0.62, 0.5, "1 \u2212 p\n(correct=false)", color=INK, fontsize=11)
    return figure


def reach(seen: Found) -> Figure:
    """How well wrong labels are found, by the number of pairs; what is left of them, by how they came to be wrong."""
    figure = Figure(figsize=(8.6, 3.9), layout="constrained")
    counts, rates = figure.subplots(1, 2)
    dress(counts, "area under ROC", "pairs")
    for (rate, areas), colour in zip(seen.by_count.items(), (RIGHT, SERIES[4]), strict=True):
        _band(counts, COUNTS, areas, colour)
        place, rise = (1, 0.13) if rate < 0.3 else (5, -0.12)
        words, height = f"{100 * rate:.0f}\u00a0% wrong", areas[place].mean() + rise
        counts.text(COUNTS[place], height, words, color=colour, fontsize=11, ha="center", va="center")
    counts.set_xscale("log", base=2)
    counts.xaxis.set_major_locator(FixedLocator(COUNTS))
    counts.xaxis.set_minor_locator(NullLocator())
    counts.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    counts.axhline(0.5, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
    counts.text(COUNTS[-1], 0.49, "chance", color=INK, fontsize=11, ha="right", va="top")
    dress(rates, "wrong labels left", f"wrong labels before, of {PAIRS} pairs")
    rates.plot([0, 0.5], [0, 0.5], color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
    rates.text(0.51, 0.5, "nothing\ndone", color=INK, fontsize=11, va="center")
    rates.set_xlim(0, 0.62)
    for (flips, shares), colour, rise in zip(seen.by_rate.items(), (RIGHT, WRONG), (-0.04, 0.06), strict=True):
        _band(rates, RATES, shares, colour)
        place = RATES.index(0.3)
        side = "right" if rise > 0 else "left"
        rates.text(RATES[place], shares[place].mean() + rise, flips, color=colour, fontsize=11, va="center", ha=side)
    for axis in (rates.xaxis, rates.yaxis):
        axis.set_major_formatter(PERCENT)
    return figure


def numbers(rates: Sequence[float] = (0.0, 0.1, 0.2, 0.3, 0.4)) -> str:
    """The table of the page: how well the rate is found."""
    rows = []
    for rate in rates:
        one = world(rate=rate)
        fitted = fit_with_interval(one.alignment)
        area = f"{one.area:.2f}" if rate else "-"
        values = (f"{fitted.rate:.2f}", f"{fitted.low:.2f} to {fitted.high:.2f}")
        rows.append([f"{one.wrong.mean():.2f}", *values, f"{fitted.separation:.1f}", area])
    header = ("true rate", "found", "95 % interval", "right and wrong apart, in widths", "area under ROC")
    return "\n".join(markdown_table(header, rows))


FIGURES = {
    "consensus-arrows": (arrows, "Gradients of pairs with right and wrong labels, and the direction of the others"),
    "consensus-mixture": (mixture, "Alignments of 400 pairs with the two fitted densities"),
    "consensus-trust": (trust, "The probability of a wrong label by alignment, and what a pair then counts"),
    "consensus-reach": (reach, "How well wrong labels are found, by number of pairs and by kind of flips"),
}


def write(docs: Path) -> None:
    """The pictures of docs/images, and the computed table of docs/consensus.md."""
    seen = found()
    for name, (draw, label) in FIGURES.items():
        with whole_file(docs / "images" / f"{name}.svg") as part:
            part.write_text(svg_file(draw(seen), key=name, label=label) + "\n", encoding="utf-8")
    fill(docs / "consensus.md", {"consensus": numbers})


def _band(axes: Axes, places: Sequence[float], areas: Numbers, colour: str) -> None:
    """Mean over worlds, and from the least to the greatest."""
    axes.fill_between(places, areas.min(1), areas.max(1), color=colour, alpha=0.18, linewidth=0)
    axes.plot(places, areas.mean(1), color=colour, linewidth=2, marker="o", markersize=3.5)


def _round(axes: Axes) -> None:
    axes.set_aspect("equal")
    axes.set_xlim(-1.45, 1.45)
    axes.set_ylim(-1.4, 1.4)
    axes.axis("off")
    angle = np.linspace(0, 2 * np.pi, 100)
    axes.plot(np.cos(angle), np.sin(angle), color=INK, linewidth=0.6, alpha=0.35)


def _arrow(axes: Axes, tip: Numbers, colour: str, width: float) -> None:
    look = {"arrowstyle": "-|>", "color": colour, "linewidth": width, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", tuple(tip), (0, 0), arrowprops=look)


def _say(axes: Axes, across: float, top: float, lines: Sequence[tuple[str, str]]) -> None:
    for place, (words, colour) in enumerate(lines):
        axes.text(across, top - 0.085 * place, words, color=colour, fontsize=11, transform=axes.transAxes)


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
