"""The tab of an audit's page that names labels likely wrong."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from gapo.consensus.mixture import Mixture
from gapo.diagnostics.tables import column
from gapo.pairs.pair import PairSet
from gapo.report.elements import Section, cards, figure, paragraph, table, together
from gapo.report.figures import CLEAN_COLOUR, FLIPPED_COLOUR, SERIES, SIZE, dress, legend
from gapo.report.label_words import LIMITS, apart_sentence, rate_sentence
from gapo.report.markup import Markup, tag
from gapo.report.tables import Table
from gapo.report.wording import NONE, percent, plain
from gapo.runs.find_wrong import WrongLabels

SHOWN, LETTERS, BINS = 50, 200, 40


def label_section(found: WrongLabels, pairs: PairSet | None) -> Section:
    """Estimated rate, self-check, the mixture, and the pairs suspected most."""
    mixture = Mixture.of(found.about["mixture"])
    check = found.about["check"]
    numbers = cards(
        [
            ("Wrong labels", percent(mixture.rate), f"{percent(mixture.low)} to {percent(mixture.high)}"),
            ("Likelier wrong than right", f"{found.about['suspected']:,}", f"of {found.about['pairs']:,} pairs"),
            ("Self-check, area under ROC", plain(check["area"], 2), "0.5 is chance"),
            ("Self-check, found at the top", percent(check["precision"]), f"chance {percent(check['share'])}"),
        ]
    )
    drawn = tag(
        "div",
        figure(
            alignments(column(found.table, "consensus"), mixture),
            key="alignments",
            title="Alignment with the other pairs",
            caption="Left of 0 a pair pulls against the others. Curves: what right and wrong labels would look like.",
        ),
        figure(
            probabilities(column(found.table, "consensus"), mixture),
            key="wrong",
            title="Probability that the label is wrong",
            caption="Each pair by its alignment; above one half the other label is the likelier one.",
        ),
        class_="grid",
    )
    said = [rate_sentence(found.about), check["words"], apart_sentence(found.about)]
    content = together(
        *(paragraph(words) for words in said if words), numbers, drawn, _listed(found, pairs), paragraph(LIMITS, "soft")
    )
    return Section("wrong-labels", "Wrong labels", content)


def alignments(values: np.ndarray, mixture: Mixture) -> Figure:
    """The histogram, with the densities of right and of wrong labels, each at its share."""
    drawn = Figure(figsize=SIZE, layout="constrained")
    axes = drawn.add_subplot()
    dress(axes, "density", "alignment")
    axes.hist(values, bins=min(BINS, max(6, int(len(values) ** 0.5))), density=True, color=SERIES[0], alpha=0.2)
    at = np.linspace(values.min(), values.max(), 200)
    for sign, share, colour, name in (
        (1, 1 - mixture.rate, CLEAN_COLOUR, "right"),
        (-1, mixture.rate, FLIPPED_COLOUR, "wrong"),
    ):
        axes.plot(at, share * mixture.density(sign * at), color=colour, linewidth=1.8, label=name)
    legend(axes)
    return drawn


def probabilities(values: np.ndarray, mixture: Mixture) -> Figure:
    """p against the alignment, a point a pair."""
    drawn = Figure(figsize=SIZE, layout="constrained")
    axes = drawn.add_subplot()
    dress(axes, "probability", "alignment")
    axes.axhline(0.5, color=FLIPPED_COLOUR, linewidth=1, alpha=0.6, linestyle=(0, (4, 3)))
    axes.scatter(values, mixture.wrong(values), s=10, color=SERIES[0], alpha=0.5, linewidths=0)
    axes.set_ylim(-0.02, 1.02)
    return drawn


def _listed(found: WrongLabels, pairs: PairSet | None) -> Markup:
    known = {pair.id: pair for pair in pairs} if pairs is not None else {}
    rows = []
    for row in found.table.slice(0, SHOWN).to_pylist():
        pair = known.get(row["pair_id"])
        said = [_short(text) for text in (pair.prompt_text, pair.chosen, pair.rejected)] if pair else [NONE] * 3
        rows.append((row["pair_id"], plain(row["wrong"], 2), plain(row["consensus"], 3), *said))
    header = ("pair", "probability", "alignment", "prompt", "labelled better", "labelled worse")
    return table(Table(header, tuple(rows)), caption=f"Suspected most: {len(rows)}", kind="ids words")


def _short(text: str) -> str:
    return text if len(text) <= LETTERS else text[:LETTERS] + " \u2026"
