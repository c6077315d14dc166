"""The page of several runs, the first being what the others are compared with."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from gapo.report import figures, results, sentences, tables
from gapo.report.elements import Section, document, figure, missing, paragraph, table, together, with_care
from gapo.report.markup import Markup, tag, visible
from gapo.report.paired_sections import how_compared, same_pairs, same_weights
from gapo.report.run_files import Run
from gapo.report.smoothing import Columns, thinned

LABEL_LENGTH = 22  # characters beside the accuracy plot; the table has the full names
OVERLAYS = (
    ("loss", "Loss", "Losses of different objectives are on different scales: compare shapes, not heights."),
    ("margin", "Margin", "On the training pairs as labelled."),
    ("accuracy", "Training accuracy", "On the training pairs as labelled: with flipped labels, higher is not better."),
    ("gap_mean", "Gap", "Only methods with an anchor have one."),
    ("weight_mean", "Weight", "Mean weight of a step's pairs."),
    ("chosen_logp", "Chosen log-prob", "A fall means that the model unlearns what it should prefer."),
    ("drift", "Drift", "Distance from the start model: equal accuracy with less drift is the better bargain."),
    ("grad_norm", "Gradient norm", "Spikes mark unstable steps."),
)


def comparison_page(runs: Sequence[Run], at: Path) -> str:
    """`at` is where the page will lie: links to the runs' own pages are relative to it."""
    names = distinct_names(runs)
    notes = [f"{name}: {line}" for run, name in zip(runs, names, strict=True) for line in sentences.cautions(run)]
    head = together(
        paragraph("gapo runs compared", "kicker"),
        tag("h1", " \u00b7 ".join(names) if len(names) <= 4 else f"{names[0]} and {len(names) - 1} other runs"),
        paragraph(sentences.comparison_sentence(runs, names), "lead"),
        with_care([*_unlike(runs), *notes]),
    )
    sections = (
        Section("comparison", "Comparison", _comparison(runs, names)),
        *same_pairs(runs, names),
        Section("curves", "Curves", _curves(runs, names)),
        *same_weights(runs, names),
        Section("recipes", "What the recipes do not share", _recipes(runs, names)),
        Section("runs", "The runs", [_run(run, name, at) for run, name in zip(runs, names, strict=True)]),
    )
    return document(f"{names[0]} and others \u2013 gapo runs compared", head, sections)


def distinct_names(runs: Sequence[Run]) -> list[str]:
    """Folder names, with the parent's where two runs are called the same, with a number where that fails too."""
    plain = [run.name for run in runs]
    longer = [
        name if plain.count(name) == 1 else f"{run.folder.parent.name}/{name}"
        for run, name in zip(runs, plain, strict=True)
    ]
    return [name if longer.count(name) == 1 else f"{name} ({place + 1})" for place, name in enumerate(longer)]


def _unlike(runs: Sequence[Run]) -> list[str]:
    """What makes a comparison unfair is said before its result is read."""
    found = []
    if len({results.held_out_pairs(run) for run in runs if run.evals}) > 1:
        found.append("The runs were evaluated on different numbers of pairs.")
    if len({results.flip_share(run) for run in runs if run.evals}) > 1:
        found.append("The runs were trained with different shares of flipped labels.")
    return found


def _comparison(runs: Sequence[Run], names: Sequence[str]) -> Markup:
    known = [(name, rate) for run, name in zip(runs, names, strict=True) if (rate := results.accuracy(run, "after"))]
    return together(
        table(tables.accuracy_comparison(runs, names), caption="Reward accuracy on held-out pairs"),
        paragraph(how_compared(runs, names), "soft"),
        tag("div", _accuracies(runs, names), class_="grid") if len(known) > 1 else None,
        table(tables.other_measures(runs, names), caption="Other measures after training"),
    )


def _accuracies(runs: Sequence[Run], names: Sequence[str]) -> Markup:
    rates = [results.accuracy(run, "after") for run in runs]
    drawn = figures.accuracies(
        [_short(name) for name in names],
        [rate.value if rate else float("nan") for rate in rates],
        [rate.interval if rate else None for rate in rates],
    )
    caption = "Point: accuracy on held-out pairs. Bar: its 95\u00a0% interval."
    return figure(drawn, key="accuracies", title="Reward accuracy after training", caption=caption)


def _short(name: str) -> str:
    name = visible(name)
    return name if len(name) <= LABEL_LENGTH else f"{name[: LABEL_LENGTH - 1]}\u2026"


def _curves(runs: Sequence[Run], names: Sequence[str]) -> Markup:
    if not any(run.steps for run in runs):
        return paragraph("None of the runs has a steps.jsonl with steps, so there are no curves.")
    key = (
        tag("li", tag("span", class_=f"chip series-{place % len(figures.SERIES)}"), name)
        for place, name in enumerate(names)
    )
    columns = [thinned(run.steps) if run.steps else {} for run in runs]
    panels = (_overlay(columns, *overlay) for overlay in OVERLAYS)
    note = "Running means over a twentieth of each run; runs of fewer than 40 steps as they are."
    return together(tag("ul", key, class_="key"), paragraph(note, "soft"), tag("div", panels, class_="grid"))


def _overlay(columns: Sequence[Columns], name: str, title: str, caption: str) -> Markup:
    if not any(name in steps for steps in columns):
        return missing(title, f"None of the runs recorded {name}.")
    drawn = figures.overlay(columns, name, title.lower())
    return figure(drawn, key=f"over-{name}", title=title, caption=caption)


def _recipes(runs: Sequence[Run], names: Sequence[str]) -> Markup:
    rows = tables.recipe_differences(runs, names)
    if not rows.rows:
        return paragraph("The recipes are the same, setting by setting.")
    return table(rows, caption="Settings that differ", kind="words")


def _run(run: Run, name: str, at: Path) -> Markup:
    page = run.folder / "report.html"
    link = tag("a", "Its own page", href=relative_link(page, at)) if page.is_file() else "It has no page of its own yet"
    return tag("div", tag("h3", name), paragraph(sentences.result_sentence(run)), tag("p", link), class_="reply")


def relative_link(page: Path, at: Path) -> str:
    """A link that survives moving the whole tree; a folder name cannot turn it into something else than a path."""
    path = Path(os.path.relpath(page, at.parent)).as_posix()  # Path.relative_to cannot walk up before Python 3.12
    return "./" + quote(path)
