"""The page of a study as Markdown: made from its tables and what is known about its runs, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import escape
from math import isnan
from typing import Any

from gapo.report.markup import visible
from gapo.studies import exhibits
from gapo.studies.exhibits import Column, Pivot, Sheet
from gapo.studies.names import method_name
from gapo.studies.planned import NOT_YET
from gapo.studies.rows import Row, Rows, Tables, number, where
from gapo.studies.scale import scale_of
from gapo.studies.seeds import BY_STUDENT, ENOUGH, HELD
from gapo.studies.sentences import MINUS, NONE, listed, percent, plain, points
from gapo.studies.study import AGREES, DISAGREES, Claim, Study

About = dict[str, Any]
Cells = tuple[list[str], list[list[str]]]  # heads, lines
VERDICTS = {AGREES: "agrees with the paper", DISAGREES: "**disagrees with the paper**"}
SHOWN = 160  # characters of what a model said
ACTS = re.compile(r"([\\`*_\[\]|#!~])")  # in Markdown
BOOTSTRAP = ("95 % bootstrap intervals", " (expanded percentiles)")
NOTE = (
    "Intervals are {kind} of the mean over seeds{how}; differences are taken seed by seed. With {seeds} seeds such an "
    "interval holds the mean in about {held:.0f} of 100 cases{few}. Seeds share the pairs and the start model, so "
    "intervals speak of training, not of other data."
)


def study_page(study: Study, tables: Tables, rows: Rows, about: About) -> str:
    """The whole page."""
    parts = [
        f"# {study.name}: {study.title}",
        study.question,
        "**What was found.** " + " ".join(study.findings(tables)),
        *_beside_the_paper(study.claims(tables)),
        *[_part(exhibit, tables) for exhibit in study.exhibits],
        _setting(study, rows, about),
        _files(study, tables),
    ]
    return "\n\n".join(parts) + "\n"


def _beside_the_paper(claims: Sequence[Claim]) -> list[str]:
    """What agrees, what does not, and what these seeds leave open."""
    if not claims:
        return []
    against = [claim for claim in claims if claim.verdict == DISAGREES]
    parts = ["## Beside the paper", markdown_table(*claim_cells(claims))]
    if against:
        parts.append(f"**Our result disagrees with the paper** on: {listed([claim.words for claim in against])}.")
    unclear = [claim for claim in claims if claim.verdict != AGREES and claim.reason]
    if unclear:
        reasons = dict.fromkeys(claim.reason for claim in unclear)
        parts.append(
            f"Where ours does not show what the paper reports, the likeliest reason we can test: {'; '.join(reasons)}."
        )
    return parts


def claim_cells(claims: Sequence[Claim]) -> Cells:
    """Each claim, the paper's figure, ours with its interval, and what follows."""
    lines = [[claim.words, _of_kind(claim.paper, claim.kind), _ours(claim), _verdict(claim)] for claim in claims]
    return ["claim", "paper", "ours", "verdict"], lines


def _verdict(claim: Claim) -> str:
    return "not measured" if claim.ours is None else VERDICTS.get(claim.verdict, "open")


def _ours(claim: Claim) -> str:
    if claim.ours is None:
        return NONE
    return _with_interval(claim.ours.mean, claim.ours.low, claim.ours.high, claim.kind)


def _part(exhibit: exhibits.Exhibit, tables: Tables) -> str:
    if not tables[exhibit.table]:
        return f"{exhibit.title}: {NOT_YET}."
    if isinstance(exhibit, Sheet):
        return f"## {exhibit.title}\n\n{markdown_table(*sheet_cells(exhibit, tables[exhibit.table]))}"
    if isinstance(exhibit, Pivot):
        return f"## {exhibit.title}\n\n{markdown_table(*pivot_cells(exhibit, tables[exhibit.table]))}"
    source = f"[{exhibit.table}.csv]({exhibit.table}.csv)"
    picture = f"![{exhibit.title}]({exhibit.name}.svg)"
    return f"{picture}\n\n{exhibit.title}. Numbers: {source}; as a picture: [PNG]({exhibit.name}.png)."


def sheet_cells(sheet: Sheet, rows: Rows) -> Cells:
    """Heads and lines of a table; a column that no row can fill is left out."""
    shown = [column for column in sheet.columns if any(row.get(column.key) is not None for row in rows)]
    return [column.head for column in shown], [[cell(row, column) for column in shown] for row in rows]


def pivot_cells(pivot: Pivot, rows: Rows) -> Cells:
    """Columns: the row's labels, then for each value our figure and, where there are any, the paper's."""
    across = list(dict.fromkeys(row[pivot.across.key] for row in rows))
    quoted = {
        value
        for value in across
        if any(row.get(pivot.paper) is not None for row in where(rows, **{pivot.across.key: value}))
    }
    heads = [column.head for column in pivot.rows]
    for value in across:
        name = _of_kind(value, pivot.across.kind)
        heads += [name, f"paper: {name}"] if value in quoted else [name]
    lines = []
    for labels in dict.fromkeys(tuple(row[column.key] for column in pivot.rows) for row in rows):
        here = where(rows, **dict(zip([column.key for column in pivot.rows], labels, strict=True)))
        line = [_of_kind(value, column.kind) for value, column in zip(labels, pivot.rows, strict=True)]
        for value in across:
            found = next(iter(where(here, **{pivot.across.key: value})), {})
            awaited = pivot.absent is not None and found and number(found.get(pivot.value.key)) is None
            line.append(str(pivot.absent) if awaited else cell(found, pivot.value))
            line += [_of_kind(found.get(pivot.paper), pivot.value.kind)] if value in quoted else []
        lines.append(line)
    return heads, lines


def cell(row: Row, column: Column) -> str:
    """A value with its interval where the row has one."""
    low, high = (number(row.get(f"{column.key}_{end}")) for end in ("low", "high"))
    return _with_interval(row.get(column.key), low, high, column.kind)


def _with_interval(value: Any, low: float | None, high: float | None, kind: str) -> str:
    text = _of_kind(value, kind)
    if low is None or high is None or value is None:
        return text
    ends = [_of_kind(end, kind).removesuffix(" %").removesuffix(" s") for end in (low, high)]
    return f"{text} ({ends[0]} to {ends[1]})"


def _of_kind(value: Any, kind: str) -> str:
    if value is None or (isinstance(value, float) and isnan(value)):
        return NONE
    if kind == exhibits.METHOD:
        return method_name(str(value))
    if kind == exhibits.SAID:
        return _said(str(value))
    if kind == exhibits.WORDS or isinstance(value, str):
        return str(value)
    return WRITERS.get(kind, plain)(float(value))


def _ratio(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}"


def _seconds(value: float | None) -> str:
    return NONE if value is None else f"{value:.1f} s"


def _said(text: str) -> str:
    """Words of a model: shown as they are, cut, with nothing in them that a page would act on."""
    cut = text if len(text) <= SHOWN else text[:SHOWN] + " ..."
    return ACTS.sub(r"\\\1", escape(visible(cut), quote=False))


def _share(value: float | None) -> str:
    """A rate that was chosen: no decimals that nobody asked for."""
    return NONE if value is None else f"{100 * value:.3g} %"


def _quoted(value: float | None) -> str:
    return NONE if value is None else f"{value:g}".replace("-", MINUS)


WRITERS: dict[str, Callable[[float | None], str]] = {
    exhibits.PERCENT: percent,
    exhibits.POINTS: points,
    exhibits.RATIO: _ratio,
    exhibits.SECONDS: _seconds,
    exhibits.SHARE: _share,
    exhibits.QUOTED: _quoted,
}


def _setting(study: Study, rows: Rows, about: About) -> str:
    lines = [f"- {line}" for line in setting_lines(study, rows, about)]
    return "## Setting\n\n" + "\n".join(lines) + f"\n\n```\n{about['command']}\n```"


def setting_lines(study: Study, rows: Rows, about: About) -> list[str]:
    """How it was made, in sentences; the last one leads to the command."""
    seeds = about["seeds"]
    runs = len({row["run"] for row in rows})
    return [
        *([] if study.long else [f"Scale: {scale_of(about['scale']).words}."]),
        study.differs,
        f"Runs: {runs}, with seeds {listed([str(seed) for seed in seeds])}. A seed sets the order of the pairs, "
        "which labels are wrong, and the replies that are sampled.",
        *_to_come(runs, about),
        _interval_note(len(seeds)),
        _tuning_note(study, about),
        *_stopped(rows),
        f"Made by gapo {about['version']} with torch {about['torch']} on Python {about['python']}, {about['cores']} "
        "cores, by:",
    ]


def _to_come(runs: int, about: About) -> list[str]:
    """Of a study of hours, how many runs its page does not have yet."""
    planned = about.get("planned", runs)
    return [f"Not run yet: {planned - runs} of {planned} runs; the same command goes on."] if planned > runs else []


def _interval_note(seeds: int) -> str:
    if seeds == 1:
        return "Of one seed there is no interval over seeds: nothing here is more than a try."
    few = f"; with fewer than {ENOUGH} nothing is called clear" if seeds < ENOUGH else ""
    kind, how = ("Student's 95 % intervals", "") if seeds == BY_STUDENT else BOOTSTRAP
    return NOTE.format(kind=kind, how=how, seeds=seeds, held=100 * HELD.get(seeds, 0.93), few=few)


def _tuning_note(study: Study, about: About) -> str:
    if study.name.endswith("tuning"):
        return "Knobs not named in the grid are the objective's defaults."
    tuned = sorted(about["tuned"])
    if not tuned:
        return "No method was tuned: all have the recipe's learning rate and their own default knobs."
    names = listed([method_name(method) for method in tuned])
    return f"Learning rate and knobs as chosen in [tuning](../tuning/README.md) for {names}."


def _stopped(rows: Rows) -> list[str]:
    """Runs that could not go on are named, not left out in silence."""
    return [
        f"Stopped: {' '.join(str(row[key]) for key in row if key not in ('run', 'stopped'))} ({row['stopped']})."
        for row in rows
        if "stopped" in row
    ]


def _files(study: Study, tables: Tables) -> str:
    named = [f"[{name}.csv]({name}.csv)" for name in tables]
    return (
        f"Tables: {listed(named)}. Every run's own numbers: [rows.jsonl](rows.jsonl). "
        f"`gapo study {study.name} --from-runs` draws this page again without training."
    )


def markdown_table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """As text; what a cell holds stays in it."""
    rule = "|".join("---" for _ in heads)
    cells = ([text.replace("|", "\\|") for text in line] for line in (heads, *lines))
    head, *rows = (f"| {' | '.join(line)} |" for line in cells)
    return "\n".join([head, f"|{rule}|", *rows])
