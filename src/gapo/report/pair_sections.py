"""The parts of a run's page that look pair by pair."""

from __future__ import annotations

from gapo.report import figures, sentences, tables
from gapo.report.elements import figure, paragraph, table, together
from gapo.report.markup import Markup, tag
from gapo.report.pair_weights import FLIPPED, LatePairs, length_terms, tiers, weights_over_training
from gapo.report.run_files import Run
from gapo.report.statistics import spearman

NO_PAIRS = "There is no readable pairs.parquet in this run, so nothing is known pair by pair."


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
