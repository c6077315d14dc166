"""The method in pictures, measured on the lab: `python -m gapo.report.method_figures docs`.

A batch of 32 lab pairs, 20 % of them flipped, at the lab's start model, in float64. Nothing is drawn by hand.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gapo.anchor.gap import margin_direction, parameters_in_scope
from gapo.diagnostics.landscape import Floats, Plane
from gapo.diagnostics.probing import ProbeSettings, probe_pairs, weight_of
from gapo.diagnostics.second_order import precise
from gapo.evaluate.markdown import markdown_table
from gapo.lab.load import load_pairs, load_start
from gapo.model.double import double_copy
from gapo.model.generate import padding_id
from gapo.pairs.collate import collate
from gapo.pairs.encode import Encoder, encode_pairs
from gapo.pairs.noise import flip
from gapo.report.figures import SERIES, dress
from gapo.report.svg import INK, svg_file
from gapo.runs.computed import fill
from gapo.storage import whole_file

PAIRS, RATE, SEED, MAX_LENGTH = 32, 0.2, 0, 512
SETTINGS = ProbeSettings(batch_pairs=PAIRS, seed=None)
RADIUS = SETTINGS.radius
BRITTLE, STABLE, FAINT = SERIES[1], SERIES[2], SERIES[7]
SPAN = 0.2  # of the plane, four radii: nearer, margins are all but linear and their contours straight


@dataclass(frozen=True)
class Measured:
    """What the pictures show: the probe of the batch, and margins on the line and in the plane."""

    probe: pa.Table
    brittle: int  # the pair with the largest gap
    stable: int  # the pair with the smallest
    distances: Floats
    line: Floats  # [distances, pairs]: margins on the way from theta to the anchor and beyond
    right: Floats
    up: Floats
    plane: Floats  # [up, right, 2]: margins of the brittle and of the stable pair

    def column(self, name: str) -> Floats:
        return np.asarray(self.probe[name].to_numpy(zero_copy_only=False), dtype=float)


def measured(points: int = 17) -> Measured:
    """Measure the batch, `points` times `points` places of the plane."""
    model, tokenizer = load_start()
    model = double_copy(model)  # type: ignore[assignment]
    noisy, _ = flip(load_pairs("train")[:PAIRS], RATE, "random", SEED)
    encoded, _ = encode_pairs(noisy, Encoder(tokenizer, MAX_LENGTH))
    pad_id = padding_id(tokenizer, model)
    with precise(model):
        probe = probe_pairs(model, encoded, pad_id, SETTINGS)
        gap = probe["gap"].to_numpy()
        brittle, stable = int(gap.argmax()), int(gap.argmin())
        scope = parameters_in_scope(model)
        batch = collate(encoded, pad_id)
        direction, _ = margin_direction(model, [batch], scope)
        two = collate([encoded[brittle], encoded[stable]], pad_id)
        own, _ = margin_direction(model, [collate([encoded[brittle]], pad_id)], scope)
        plane = Plane.through(scope, direction.gradient, own.gradient)
        distances = np.linspace(0, 2 * RADIUS, 9)
        right, up = np.linspace(-SPAN, SPAN * 0.8, points), np.linspace(-SPAN * 0.6, SPAN * 0.6, points)
        line = plane.margins(model, batch, -distances, [0.0])[0]
        return Measured(probe, brittle, stable, distances, line, right, up, plane.margins(model, two, right, up))


def landscape(found: Measured) -> Figure:
    """The margin of either pair in the plane, with theta, the direction and the anchor."""
    figure = Figure(figsize=(8.6, 4.1), layout="constrained")
    both = figure.subplots(1, 2, sharey=True)
    sides = (
        (found.brittle, "the most brittle pair", BRITTLE, 0.2),
        (found.stable, "the most stable pair", STABLE, 0.01),
    )
    for place, (pair, name, colour, step) in enumerate(sides):
        axes = both[place]
        dress(axes, "across: the brittle pair's own" if place == 0 else "", "distance along the batch's direction")
        axes.grid(visible=False)
        heights = found.plane[:, :, place]
        levels = step * np.arange(np.floor(heights.min() / step), np.ceil(heights.max() / step) + 1)
        lines = axes.contour(found.right, found.up, heights, levels, colors=colour, linewidths=1.1, linestyles="-")
        axes.clabel(lines, fontsize=9, fmt="%g")
        margin, gap = found.column("margin")[pair], found.column("gap")[pair]
        axes.annotate(
            "", (-RADIUS, 0), (0, 0), arrowprops={"arrowstyle": "-|>", "color": INK, "linewidth": 1.6, "shrinkA": 0}
        )
        axes.plot(0, 0, "o", color=INK, markersize=6)
        axes.plot(-RADIUS, 0, "o", color=INK, markersize=5, markerfacecolor="white")
        _note(axes, _signed(f"\u03b8: margin {margin:.3f}"), (0.0, 0.0), (10, 12))
        _note(axes, _signed(f"anchor: {margin - gap:.3f}"), (-RADIUS, 0.0), (-10, -22), "right")
        axes.set_title(f"{name}: a line every {step:g}", color=colour, fontsize=12, loc="left")
    return figure


def along_the_way(found: Measured) -> Figure:
    """How every pair's margin falls on the way to the anchor, which lies at the radius."""
    figure = Figure(figsize=(6.4, 3.9), layout="constrained")
    axes = figure.add_subplot()
    dress(axes, "margin, less the margin at \u03b8", "distance from \u03b8 against the batch's direction")
    fall = found.line - found.line[0]
    for pair in range(fall.shape[1]):
        axes.plot(found.distances, fall[:, pair], color=FAINT, linewidth=0.7, alpha=0.7)
    axes.axvline(RADIUS, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
    axes.set_xlim(0, 2.55 * RADIUS)
    axes.set_ylim(1.12 * fall.min(), -0.1 * fall.min())
    end = found.distances[-1]
    for pair, name, colour in ((found.brittle, "brittle", BRITTLE), (found.stable, "stable", STABLE)):
        gap = found.column("gap")[pair]
        axes.plot(found.distances, fall[:, pair], color=colour, linewidth=2.2)
        axes.plot(RADIUS, -gap, "o", color=colour, markersize=6)
        axes.text(end * 1.02, fall[-1, pair], _signed(f"{name}\ngap {gap:.4f}"), color=colour, fontsize=11, va="center")
    axes.text(end * 1.02, np.median(fall[-1]) - 0.02, "the other 30", color=INK, alpha=0.7, fontsize=11, va="center")
    low = axes.get_ylim()[0]
    axes.text(RADIUS * 0.97, low * 0.93, f"anchor, \u03c1 = {RADIUS:g}", color=INK, fontsize=11, ha="right")
    return figure


def gap_to_weight(found: Measured) -> Figure:
    """The curve that turns a gap into a weight: all of it, and where this batch stands on it."""
    figure = Figure(figsize=(8.6, 3.6), layout="constrained")
    whole, near = figure.subplots(1, 2)
    beta, gamma = SETTINGS.beta, SETTINGS.gamma
    gaps, weights = found.column("gap"), found.column("weight")
    room = np.ptp(gaps) * 0.12
    for axes, reach in ((whole, (-2.0, 2.0)), (near, (gaps.min() - room, gaps.max() + 2.5 * room))):
        dress(axes, "weight" if axes is whole else "", "gap")
        x = np.linspace(reach[0], reach[1], 200)
        axes.plot(x, weight_of(x, beta, gamma), color=SERIES[0], linewidth=1.8)
        axes.set_xlim(*reach)
    whole.axhline(beta, color=INK, linewidth=0.6, linestyle=(0, (4, 3)))
    whole.text(2, beta * 0.985, f"\u03b2 = {beta:g}", color=INK, fontsize=11, ha="right", va="top")
    whole.text(
        -1.9,
        0.15,
        f"weight = \u03b2 \u03c3(\u03b3 \u2212 \u03b2 gap)\n\u03b3 = {gamma:g}",
        color=SERIES[0],
        fontsize=11,
    )
    whole.axvspan(gaps.min(), gaps.max(), color=BRITTLE, alpha=0.25, linewidth=0)
    whole.text(gaps.max() + 0.08, 1.75, "this batch", color=INK, fontsize=11)
    near.scatter(gaps, weights, s=22, color=FAINT, zorder=3, linewidths=0)
    for pair, name, colour, side in (
        (found.brittle, "brittle", BRITTLE, "right"),
        (found.stable, "stable", STABLE, "left"),
    ):
        near.plot(gaps[pair], weights[pair], "o", color=colour, markersize=7, zorder=4)
        shift = (-10, -4) if side == "right" else (10, 2)
        _note(near, f"{name}: weight {weights[pair]:.3f}", (gaps[pair], weights[pair]), shift, side, colour)
    return figure


def shares(found: Measured) -> Figure:
    """The first-order gap of every pair: its own term and the others', and the gap as measured."""
    figure = Figure(figsize=(8.6, 3.9), layout="constrained")
    axes = figure.add_subplot()
    dress(axes, "gap", "the 32 pairs of the batch, by gap")
    order = np.argsort(found.column("gap"))
    own, others = found.column("gap_self")[order], found.column("gap_others")[order]
    gap, flipped = found.column("gap")[order], found.column("flipped")[order] > 0
    places = np.arange(len(order))
    axes.bar(places, own, 0.72, color=SERIES[0])
    below = np.where(others < 0, 0.0, own)
    axes.bar(places, others, 0.72, bottom=below, color=SERIES[3], alpha=0.85)
    axes.plot(places, gap, "D", color=INK, markersize=4)
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.set_xticks(places[flipped], ["\u00d7"] * int(flipped.sum()))
    axes.grid(axis="x", visible=False)
    axes.set_ylim(top=gap.max() * 1.12)
    share = own.sum() / (own.sum() + others.sum())
    for height, words, colour in (
        (0.92, f"the pair's own term: {share:.0%} of all gaps together", SERIES[0]),
        (0.81, "what the other 31 pairs add, or take (below zero)", SERIES[3]),
        (0.70, "\u25c6 the gap as measured at the anchor", INK),
        (0.59, "\u00d7 flipped label", INK),
    ):
        axes.text(0.02, height, words, color=colour, fontsize=11.5, transform=axes.transAxes)
    return figure


def numbers(found: Measured) -> str:
    """The table under the pictures."""
    rows = []
    for name, pair in (("most brittle", found.brittle), ("most stable", found.stable)):
        at = {
            key: found.column(key)[pair] for key in ("margin", "gap", "weight", "alignment", "gap_self", "gap_others")
        }
        lengths = "/".join(f"{found.column(f'{side}_tokens')[pair]:.0f}" for side in ("chosen", "rejected"))
        label = "wrong" if found.column("flipped")[pair] else "right"
        measures = (at["margin"], at["margin"] - at["gap"], at["gap"], at["weight"], at["gap_self"], at["gap_others"])
        rows.append([name, *(f"{value:.4f}" for value in measures), f"{at['alignment']:.3f}", lengths, label])
    header = ("pair", "margin at \u03b8", "at the anchor", "gap", "weight", "own term", "the others'", "alignment")
    return "\n".join(markdown_table((*header, "tokens", "label"), rows))


FIGURES = {
    "landscape": (landscape, "Margins of two pairs in a plane through theta, with the anchor"),
    "along-the-way": (along_the_way, "Margins of 32 pairs on the way from theta to the anchor"),
    "weight": (gap_to_weight, "The weight as a function of the gap"),
    "shares": (shares, "Own term and the others' term of each pair's gap"),
}


def write(docs: Path) -> None:
    """The pictures of docs/images, and the computed table of docs/method.md."""
    found = measured()
    for name, (draw, label) in FIGURES.items():
        with whole_file(docs / "images" / f"{name}.svg") as part:
            part.write_text(svg_file(draw(found), key=name, label=label) + "\n", encoding="utf-8")
    fill(docs / "method.md", {"method": lambda: numbers(found)})


def _signed(words: str) -> str:
    return words.replace("-", "\u2212")


def _note(
    axes: Axes,
    words: str,
    place: tuple[float, float],
    shift: tuple[float, float],
    side: str = "left",
    colour: str = INK,
) -> None:
    look = {"facecolor": "white", "edgecolor": "none", "alpha": 0.9, "pad": 1}
    axes.annotate(
        words, place, shift, textcoords="offset points", ha=side, color=colour, fontsize=11, bbox=look, zorder=5
    )


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
