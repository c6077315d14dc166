"""The page of an audit: what it found, how far to trust it, and every pair to look at."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gapo.diagnostics.audit_summary import compositions_of, marks_of_truth
from gapo.diagnostics.intervals import Numbers
from gapo.diagnostics.tables import column
from gapo.errors import InputError
from gapo.pairs.formats import load_pairs
from gapo.pairs.pair import PairSet
from gapo.report import audit_figures as figures
from gapo.report import audit_words as words
from gapo.report.audit_view import audit_view
from gapo.report.elements import Section, cards, document, figure, paragraph, table, together, with_care
from gapo.report.explorer import explorer
from gapo.report.figures import weight_against_length
from gapo.report.label_section import label_section
from gapo.report.markup import Markup, tag
from gapo.report.page import NAME
from gapo.report.tables import Table
from gapo.report.wording import counted, flattened, percent, plain
from gapo.runs.audit_folder import read_audit
from gapo.runs.find_wrong import WrongLabels, read_wrong
from gapo.storage import whole_file

LABELS = {"flipped": ("clean", "flipped"), "disagree": ("agreed on", "disputed")}


def write_audit_page(folder: Path, pairs: PairSet | None = None, out: Path | None = None) -> Path:
    """Write `report.html` into the folder of a finished audit, or `out`; texts are read again where they can be."""
    found, about = read_audit(folder)
    try:
        pairs = pairs if pairs is not None else _read_again(about)
        page = audit_page(found, about, pairs, name=folder.name, labels=read_wrong(folder))
    except (KeyError, TypeError, AttributeError) as error:  # another program's audit.json, or one changed by hand
        raise InputError(f"{folder} holds no readable audit ({error!r}); remove it and audit again") from None
    path = out or folder / NAME
    with whole_file(path) as part:
        part.write_text(page, encoding="utf-8")
    return path


def _read_again(about: Mapping[str, Any]) -> PairSet | None:
    """The audited pairs, if they still are where they were."""
    try:
        return load_pairs(about["data"], split=about.get("split"), limit=about.get("limit"))
    except InputError:
        return None


def audit_page(
    found: pa.Table,
    about: Mapping[str, Any],
    pairs: PairSet | None = None,
    name: str = "audit",
    labels: WrongLabels | None = None,
) -> str:
    """The whole page."""
    model = about["model"] if not about.get("adapter") else f"{about['model']} with {about['adapter']}"
    head = together(
        paragraph(" \u00b7 ".join(["gapo audit", str(about["data"]), str(model)]), "kicker"),
        tag("h1", name),
        paragraph(words.result_sentence(about), "lead"),
        with_care(words.cautions(about)),
        cards(words.key_numbers(about)),
    )
    sections = (
        *([label_section(labels, pairs)] if labels is not None else []),
        Section("gaps", "Gaps", _gaps(found, about)),
        Section("batches", "The batch", _batches(found, about)),
        Section("length", "Weight and length", _length(found, about)),
        *_truths(found, about),
        Section("pairs", "Pairs", explorer(audit_view(found, about, pairs, about["left_out"]))),
        Section("left-out", "Left out", _left_out(about)),
        Section("settings", "Settings", _settings(about)),
        Section("environment", "Environment", _environment(about)),
        Section("again", "Run it again", _command(about)),
    )
    return document(f"{name} \u2013 gapo audit", head, sections)


def _marks(found: pa.Table, about: Mapping[str, Any]) -> tuple[Numbers | None, tuple[str, ...]]:
    """The truth to colour by, if one is known of both kinds."""
    truth = next(iter(about["summary"]["found"]), None)
    return (None, ()) if truth is None else (marks_of_truth(found, truth), LABELS[truth])


def _grid(*parts: Markup) -> Markup:
    return tag("div", parts, class_="grid")


def _gaps(found: pa.Table, about: Mapping[str, Any]) -> Markup:
    marks, names = _marks(found, about)
    gap, margin = column(found, "gap"), column(found, "margin")
    if not np.isfinite(gap).any():
        return paragraph("No pair has a finite gap.")
    below = about["summary"]["gap_below_zero"]
    return together(
        paragraph(words.how_measured(about)),
        _grid(
            figure(
                figures.histogram(gap, "gap", marks, names),
                key="gap",
                title="Gap",
                caption=f"Right: the margin falls far at the anchor. {percent(below)} of the pairs gain there.",
            ),
            figure(
                figures.cloud(margin, gap, ("margin", "gap")),
                key="margin",
                title="Gap against margin",
                caption="Left of 0 the model prefers the rejected response; above, the margin is brittle.",
            ),
            figure(
                figures.histogram(margin, "margin", marks, names),
                key="margins",
                title="Margin",
                caption="What the model prefers as it is, before any training.",
            ),
            figure(
                figures.histogram(column(found, "weight"), "weight", marks, names),
                key="weight",
                title="Weight",
                caption="What GAPO would multiply the pair's gradient by; a narrow hill treats all pairs alike.",
            ),
        ),
    )


def _batches(found: pa.Table, about: Mapping[str, Any]) -> Markup:
    gaps, settings, summary = compositions_of(found), about["plan"]["settings"], about["summary"]
    share = column(found, "self_share")
    parts = []
    if len(gaps) > 1 and np.isfinite(column(found, "gap_spread")).any():
        parts += [
            figure(
                figures.histogram(column(found, "gap_spread"), "gap spread"),
                key="spread",
                title="Spread of the gap",
                caption="Standard deviation over compositions: how much the company in a batch changes a pair's gap.",
            ),
            figure(
                figures.cloud(gaps[0], gaps[1], ("gap, composition 1", "gap, composition 2"), diagonal=True),
                key="compositions",
                title="Two compositions",
                caption="Each pair in two random batches; on the line the batch does not matter.",
            ),
        ]
    if np.isfinite(share).any():
        parts.append(
            figure(
                figures.histogram(share, "self share"),
                key="share",
                title="Self share",
                caption="Near 1 a pair is measured against itself; above 1 the others pull against it.",
            )
        )
    own, others = column(found, "gap_self"), column(found, "gap_others")
    if np.isfinite(own).any():
        parts.append(
            figure(
                figures.cloud(own, others, ("own term", "others' term")),
                key="terms",
                title="Own term and others' term",
                caption="Below 0 the other pairs of the batch contradict the pair.",
            )
        )
    least, mean = summary["order_between_compositions"]["least"], summary["order_between_compositions"]["mean"]
    sentence = (
        f"Every pair stood in {counted(settings['compositions'], 'random batch').replace('batchs', 'batches')} of "
        f"{settings['batch_pairs']}. The orders of the gaps agree with Spearman {plain(mean, 2)} on average, "
        f"{plain(least, 2)} at least."
        if mean is not None
        else "There is nothing to compare: one composition, or all gaps are equal."
    )
    return together(paragraph(sentence), _grid(*parts))


def _length(found: pa.Table, about: Mapping[str, Any]) -> Markup:
    term, weight = column(found, "length_term"), column(found, "weight")
    known = np.isfinite(term) & np.isfinite(weight)
    if known.sum() < 2:
        return paragraph("Too few pairs have a weight.")
    drawn = figure(
        weight_against_length(term[known], weight[known]),
        key="lengths",
        title="Weight against 1/|w| + 1/|l|",
        caption="A flat cloud is good news: a slope means that length alone could give much of the weighting.",
    )
    return together(paragraph(words.length_sentence(about["summary"]["weight_and_length"])), _grid(drawn))


def _truths(found: pa.Table, about: Mapping[str, Any]) -> list[Section]:
    """How well each signal finds the pairs whose label is known to be wrong or disputed."""
    sections = []
    for truth, rows in about["summary"]["found"].items():
        names = [words.NAMES[row["signal"]] for row in rows]
        bounds = [(row["low"], row["high"]) for row in rows]
        drawn = figure(
            figures.areas(
                names, [row["area"] for row in rows], [b if None not in b else (np.nan,) * 2 for b in bounds]
            ),
            key=f"areas-{truth}",
            title="What finds them",
            caption="1 finds all of them first, 0.5 is chance, below it finds the others. Bars: 95\u00a0% intervals.",
        )
        cells = tuple(
            (name, plain(row["area"], 3), f"{plain(row['low'], 3)} to {plain(row['high'], 3)}")
            for name, row in zip(names, rows, strict=True)
        )
        listed = table(
            Table(("signal", "area under ROC", "95\u00a0% interval"), cells), caption=f"Finding {truth} pairs"
        )
        count = f"{rows[0]['marked']:,} of {counted(rows[0]['pairs'], 'pair')} have {words.TRUTHS[truth]}."
        content = together(paragraph(count), _grid(drawn), listed)
        sections.append(Section(f"found-{truth}", f"Finding {words.TRUTHS[truth]}", content))
    return sections


def _left_out(about: Mapping[str, Any]) -> Markup:
    if not about["left_out"]:
        return paragraph("Nothing: every row that was read is scored.")
    return tag("ul", (tag("li", line) for line in about["left_out"]))


def _settings(about: Mapping[str, Any]) -> Markup:
    asked = ("data", "split", "limit", "model", "adapter", "template", "max_length", "dtype")
    known = {**{key: about.get(key) for key in asked}, **about["plan"]["settings"], "key": about["plan"]["key"]}
    listed = table(
        Table(("setting", "value"), tuple(flattened(known).items())), caption="How it was scored", kind="words"
    )
    return together(paragraph(words.time_sentence(about["seconds"])), listed)


def _environment(about: Mapping[str, Any]) -> Markup:
    known = {key: value for key, value in about["environment"].items() if key != "command"}
    rows = tuple(flattened(known).items())
    return table(Table(("what", "value"), rows), caption="What the audit was made with", kind="words")


def _command(about: Mapping[str, Any]) -> Markup:
    command = about["environment"].get("command")
    if not command:
        return paragraph("It was made from Python, with the settings above.")
    return tag("pre", shlex.join(str(part) for part in command), class_="command")
