"""The parts of a run's page that look pair by pair."""

from __future__ import annotations

import pyarrow as pa

from gapo.report import figures, sentences, tables
from gapo.report.elements import Section, figure, paragraph, table, together
from gapo.report.explorer import explorer
from gapo.report.markup import Markup, tag
from gapo.report.pair_weights import FLIPPED, LatePairs, length_terms, tiers, weights_over_training
from gapo.report.run_files import Run
from gapo.report.run_pairs import run_pairs
from gapo.report.self_shares import shares_over_training
from gapo.report.statistics import spearman

NO_PAIRS = "There is no readable pairs.parquet in this run, so nothing is known pair by pair."
NO_SHARES = (
    "This run's engine keeps no gradient of each pair, so the gap's own and others' shares are not known; "
    "anchor.engine=bank records them."
)


def clean_and_flipped(run: Run, late: LatePairs | None) -> Markup:
    """Whether the weights tell clean from flipped pairs."""
    if run.pairs is None or late is None:
        return paragraph(NO_PAIRS)
    bands = tiers(late)
    if len(late.weights(FLIPPED)) == 0 or not bands:
        return paragraph(sentences.weight_sentence(late))
    curve = figure(
        figures.clean_and_flipped(weights_over_training(run.pairs)),
        key="flips",
        title="Mean weight over training",
        caption="If the method tells them apart, the flipped line sinks. Bands: 95\u00a0% interval of the mean.",
    )
    bars = figure(
        figures.flip_rate_by_tier(bands),
        key="tiers",
        title="Flipped labels by weight",
        caption="If weight marks noise, the bars fall from left to right. Whiskers: Wilson's 95\u00a0% interval.",
    )
    return together(
        paragraph(sentences.weight_sentence(late)),
        paragraph(sentences.tier_sentence(bands)),
        tag("div", curve, bars, class_="grid"),
        table(tables.tier_table(bands), caption=f"Flip rate by tier, steps {late.first_step} to {late.last_step}"),
    )


def length(late: LatePairs | None) -> Markup:
    """Whether length alone could explain the weights."""
    if late is None:
        return paragraph(NO_PAIRS)
    term, weight = length_terms(late)
    if len(term) < 2:
        return paragraph("The lengths of the responses are not recorded in this run.")
    sentence = sentences.length_sentence(spearman(term, weight), len(term))
    drawn = figure(
        figures.weight_against_length(term, weight),
        key="length",
        title="Weight against 1/|w| + 1/|l|",
        caption="A flat cloud is good news: a slope means that length alone could give much of the weighting.",
    )
    return together(paragraph(sentence), tag("div", drawn, class_="grid"))


def self_share(run: Run) -> tuple[Section, ...]:
    """Whether the gap measures a pair against the others or against itself; nothing for runs without a gap."""
    if run.pairs is None or not _recorded(run.pairs, "gap"):
        return ()
    title = "Self share"
    if not _recorded(run.pairs, "gap_self"):
        return (Section("share", title, paragraph(NO_SHARES)),)
    shares = shares_over_training(run.pairs)
    if not len(shares["step"]):
        return ()
    drawn = figure(
        figures.self_share(shares),
        key="share",
        title="Self share over training",
        caption="Share of the first-order gap that is a pair's own part of the direction; above 1 the other pairs of "
        "the step pull against it. Band: from the lower to the upper quartile of the pairs.",
    )
    content = together(paragraph(sentences.self_share_sentence(shares)), tag("div", drawn, class_="grid"))
    return (Section("share", title, content),)


def _recorded(table: pa.Table, name: str) -> bool:
    return name in table.column_names and table[name].null_count < table.num_rows


def pairs(run: Run, late: LatePairs | None, *, growing: bool) -> Markup:
    """The explorer; while the run grows, or where there is nothing to explore, only the pairs at both ends."""
    view = None if growing else run_pairs(run)
    if view is None:
        note = paragraph("Every pair, with its text and history, is here when the run has ended.", "soft")
        return together(note if growing else None, extremes(late))
    ends = tag("details", tag("summary", "Most and least trusted pairs as plain tables"), extremes(late))
    return together(explorer(view), ends)


def extremes(late: LatePairs | None) -> Markup:
    """The pairs at both ends, to be looked up and read."""
    if late is None:
        return paragraph(NO_PAIRS)
    span = f"mean over steps {late.first_step} to {late.last_step}"
    return together(
        paragraph(
            "A pair's id leads to its text in the training data; tokens are of the chosen / the rejected response.",
            "soft",
        ),
        table(tables.extreme_pairs(late, highest=False), caption=f"Least weight, {span}", kind="ids"),
        table(tables.extreme_pairs(late, highest=True), caption=f"Most weight, {span}", kind="ids"),
    )
