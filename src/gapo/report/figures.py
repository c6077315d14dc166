"""Figures as functions of plain columns. They draw in one ink, which the page turns into its own text colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from gapo.report.pair_weights import Tier
from gapo.report.smoothing import Columns, running_mean, smoothing_window
from gapo.report.statistics import Interval, Numbers
from gapo.report.svg import INK

SERIES = ("#3f83c9", "#cf7420", "#3a9a5c", "#d1545d", "#8d6cc7", "#1f9a9a", "#a87a3c", "#7f8a97")  # 3:1 on both pages
CLEAN_COLOUR, FLIPPED_COLOUR = SERIES[0], SERIES[1]
SIZE = (4.5, 2.9)  # inches of 72 units: one unit is about one pixel on a phone and in the grid
SCATTER_UP_TO = 400  # pairs; more would hide each other
ROUND = (1, 2, 2.5, 5, 10)  # ticks a person would choose
PERCENT = FuncFormatter(lambda share, _: f"{100 * share:.4g}\u00a0%")
SELF_CHECK_BAND = (0.8, 1.25)


def loss(steps: Columns) -> Figure:
    """The loss of each step."""
    figure, axes = _canvas("loss")
    _curve(axes, steps["step"], steps["loss"])
    return figure


def margin_and_accuracy(steps: Columns) -> Figure:
    """Two scales, so two plots above each other: a second y axis would invite comparing heights."""
    figure = Figure(figsize=SIZE, layout="constrained")
    for axes, name in zip(figure.subplots(2, 1, sharex=True), ("margin", "accuracy"), strict=True):
        dress(axes, name, "step" if name == "accuracy" else "")
        if name in steps:
            _curve(axes, steps["step"], steps[name])
    figure.axes[0].axhline(0, color=INK, linewidth=0.6, alpha=0.5)
    figure.axes[1].yaxis.set_major_formatter(PERCENT)
    return figure


def gap(steps: Columns) -> Figure:
    """Mean gap of a step's pairs, with one standard deviation to each side."""
    figure, axes = _canvas("gap")
    if "gap_std" in steps:
        _band(axes, steps["step"], steps["gap_mean"] - steps["gap_std"], steps["gap_mean"] + steps["gap_std"])
    _curve(axes, steps["step"], steps["gap_mean"])
    return figure


def weight(steps: Columns) -> Figure:
    """Mean weight of a step's pairs, from the least to the greatest."""
    figure, axes = _canvas("weight")
    if "weight_min" in steps and "weight_max" in steps:
        _band(axes, steps["step"], steps["weight_min"], steps["weight_max"])
    _curve(axes, steps["step"], steps["weight_mean"])
    return figure


def log_probs(steps: Columns) -> Figure:
    """Log-probs of both sides: a margin can grow while both of them fall."""
    figure, axes = _canvas("log-prob")
    for name, colour in (("chosen", SERIES[2]), ("rejected", SERIES[3])):
        if f"{name}_logp" in steps:
            _curve(axes, steps["step"], steps[f"{name}_logp"], colour, name)
    legend(axes)
    return figure


def drift(steps: Columns) -> Figure:
    """Distance from the start model."""
    figure, axes = _canvas("drift")
    _curve(axes, steps["step"], steps["drift"])
    return figure


def gradient_norm(steps: Columns) -> Figure:
    """Norm of the gradient before clipping."""
    figure, axes = _canvas("gradient norm")
    _curve(axes, steps["step"], steps["grad_norm"])
    return figure


def speed(steps: Columns) -> Figure:
    """Tokens per second, from zero, so that a small wobble looks small."""
    figure, axes = _canvas("tokens per second")
    _curve(axes, steps["step"], steps["tokens_per_second"])
    axes.set_ylim(bottom=0)
    return figure


def self_check(steps: Columns) -> Figure:
    """Ratio of the measured gap to the one the gradient foretells, and the band in which the step is trusted."""
    figure, axes = _canvas("self-check ratio")
    axes.axhspan(*SELF_CHECK_BAND, color=SERIES[2], alpha=0.15, linewidth=0)
    axes.axhline(1, color=INK, linewidth=0.6, alpha=0.5)
    _curve(axes, steps["step"], steps["self_check_ratio"])
    return figure


def clean_and_flipped(weights: Columns) -> Figure:
    """Mean weight of clean and of flipped pairs over training (columns of `weights_over_training`)."""
    figure, axes = _canvas("mean weight")
    for name, colour, mark in (("clean", CLEAN_COLOUR, "o"), ("flipped", FLIPPED_COLOUR, "s")):
        if np.isfinite(weights[f"{name}_mean"]).any():
            _band(axes, weights["step"], weights[f"{name}_low"], weights[f"{name}_high"], colour)
            axes.plot(weights["step"], weights[f"{name}_mean"], color=colour, label=name, marker=mark, markersize=3.5)
    legend(axes)
    return figure


def self_share(shares: Columns) -> Figure:
    """Pooled self share of a stretch of steps, and the quartiles of its pairs (columns of `shares_over_training`)."""
    figure, axes = _canvas("self share")
    axes.axhline(1, color=INK, linewidth=0.6, alpha=0.5)
    _band(axes, shares["step"], shares["low"], shares["high"])
    axes.plot(shares["step"], shares["pooled"], color=SERIES[0], marker="o", markersize=3.5)
    return figure


def flip_rate_by_tier(tiers: Sequence[Tier]) -> Figure:
    """Bars from bottom to top weight, with intervals; the line is the rate of all pairs together."""
    figure, axes = _canvas("flipped labels", "tier by weight")
    rates = np.array([tier.rate for tier in tiers])
    reach = np.abs(np.array([tier.interval for tier in tiers]).T - rates)
    places = range(len(tiers))
    axes.bar(places, rates, width=0.6, color=FLIPPED_COLOUR, alpha=0.75)
    axes.errorbar(places, rates, yerr=reach, fmt="none", ecolor=INK, elinewidth=1.2, capsize=4)
    overall = sum(tier.flipped for tier in tiers) / sum(tier.pairs for tier in tiers)
    axes.axhline(overall, color=INK, linestyle=(0, (4, 3)), linewidth=1, label="all pairs")
    axes.set_xticks(list(places), [tier.name for tier in tiers])
    axes.yaxis.set_major_formatter(PERCENT)
    legend(axes)
    return figure


def weight_against_length(term: Numbers, weight: Numbers) -> Figure:
    """Every pair as a point, or as a density where there are many."""
    figure, axes = _canvas("weight", "1/|w| + 1/|l|  (short responses on the right)")
    _cloud(axes, term, weight, SERIES[0], xscale="log")
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    return figure


def weight_against_weight(base: Numbers, weight: Numbers, place: int) -> Figure:
    """The weight of each pair in two runs; the second one's colour."""
    figure, axes = _canvas("weight", "weight in the first run")
    _cloud(axes, base, weight, SERIES[place % len(SERIES)])
    return figure


def _cloud(axes: Axes, x: Numbers, y: Numbers, colour: str, xscale: Literal["linear", "log"] = "linear") -> None:
    if len(x) <= SCATTER_UP_TO:
        axes.scatter(x, y, s=14, color=colour, alpha=0.6, linewidths=0)
        return
    rgb = to_rgb(colour)
    density = LinearSegmentedColormap.from_list("density", [(*rgb, 0.12), (*rgb, 1.0)])
    axes.hexbin(x, y, gridsize=(26, 14), xscale=xscale, mincnt=1, cmap=density, bins="log", linewidths=0)


def overlay(runs: Sequence[Columns], name: str, label: str) -> Figure:
    """One quantity of several runs, smoothed alike; colours go by the order of the runs, the page has the key."""
    figure, axes = _canvas(label)
    for place, steps in enumerate(runs):
        if name in steps:
            known = np.isfinite(steps[name])
            smooth = running_mean(steps[name][known], smoothing_window(int(known.sum())))
            axes.plot(steps["step"][known], smooth, color=SERIES[place % 8], linestyle=("-", "--", ":")[place // 8 % 3])
    return figure


def accuracies(names: Sequence[str], rates: Sequence[float], intervals: Sequence[Interval | None]) -> Figure:
    """Accuracy after training of several runs, first run on top, with the interval of each."""
    figure, axes = _canvas("", "reward accuracy after training")
    for place, (rate, interval) in enumerate(zip(rates, intervals, strict=True)):
        colour = SERIES[place % 8]
        if interval is not None:
            axes.plot(interval, (place, place), color=colour, linewidth=2.2, alpha=0.55)
        axes.plot(rate, place, marker="o", markersize=7, color=colour)
    axes.set_yticks(range(len(names)), names, parse_math=False)  # a run may be called a$b$c
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.xaxis.set_major_formatter(PERCENT)
    return figure


def _canvas(label: str, below: str = "step") -> tuple[Figure, Axes]:
    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.add_subplot()
    dress(axes, label, below)
    return figure, axes


def dress(axes: Axes, label: str, below: str) -> None:
    """The look of every plot."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set(color=INK, alpha=0.45, linewidth=0.8)
    axes.tick_params(colors=INK, labelsize=11, width=0.6, length=3)
    axes.grid(color=INK, alpha=0.13, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_ylabel(label, color=INK, fontsize=11.5)
    axes.set_xlabel(below, color=INK, fontsize=11.5)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=below == "step", steps=ROUND))
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=ROUND))


def _curve(axes: Axes, step: Numbers, values: Numbers, colour: str = SERIES[0], name: str | None = None) -> None:
    """The values as they are; in a long run thin, under their running mean."""
    known = np.isfinite(values)  # some quantities are measured only every few steps
    step, values = step[known], values[known]
    window, few = smoothing_window(len(step)), len(step) < 3
    faint = window > 1 and not few
    axes.plot(
        step,
        values,
        color=colour,
        linewidth=0.7 if faint else 1.7,
        alpha=0.45 if faint else 1,
        marker="o" if few else "",
    )
    if faint:
        axes.plot(step, running_mean(values, window), color=colour, linewidth=2)
    if name:
        axes.lines[-1].set_label(name)


def _band(axes: Axes, step: Numbers, low: Numbers, high: Numbers, colour: str = SERIES[0]) -> None:
    known = np.isfinite(low) & np.isfinite(high)
    axes.fill_between(step[known], low[known], high[known], color=colour, alpha=0.18, linewidth=0)


def legend(axes: Axes) -> None:
    """Above the plot, where it hides nothing."""
    look = {"ncols": 3, "frameon": False, "labelcolor": INK, "fontsize": 11, "handlelength": 1.4, "borderaxespad": 0.2}
    axes.legend(loc="lower right", bbox_to_anchor=(1, 0.99), **look)
