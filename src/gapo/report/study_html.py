"""The page of a study as HTML, from the same tables and words as its Markdown: one file, figures inside."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from gapo.errors import InputError
from gapo.report.elements import Section, document, paragraph, table, together
from gapo.report.markup import Markup, tag
from gapo.report.study_figures import draw
from gapo.report.study_files import ABOUT, PAGE, ROWS, read_study
from gapo.report.study_page import About, Cells, claim_cells, pivot_cells, setting_lines, sheet_cells
from gapo.report.svg import inline_svg
from gapo.report.tables import Table
from gapo.storage import whole_file
from gapo.studies.catalogue import BY_NAME
from gapo.studies.exhibits import Exhibit, Pivot, Sheet
from gapo.studies.planned import NOT_YET
from gapo.studies.rows import Rows, Tables
from gapo.studies.study import AGREES, DISAGREES, Claim, Study

NAME = "report.html"


def write_study_html(folder: Path, out: Path | None = None) -> Path:
    """The page of a results folder, beside its README.md or where it is asked for."""
    try:
        rows, about = read_study(folder)
        study = _study_of(folder, about)
        page = study_html(study, study.tables(rows), rows, about)
    except (KeyError, TypeError, AttributeError, IndexError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"{folder} holds no readable study ({type(error).__name__}: {error}); make it again with gapo study NAME"
        ) from None
    path = out or folder / NAME
    with whole_file(path) as part:
        part.write_text(page, encoding="utf-8")
    return path


def _study_of(folder: Path, about: About) -> Study:
    """By the command that made it, whatever the folder is called now."""
    words = str(about["command"]).split()
    if len(words) < 3 or words[2] not in BY_NAME:
        raise InputError(f"{folder / ABOUT} names no study of this version of gapo ({about['command']}); make it again")
    return BY_NAME[words[2]]


def study_html(study: Study, tables: Tables, rows: Rows, about: About) -> str:
    """The whole page, what was found first."""
    head = together(
        paragraph(f"gapo study \u00b7 {study.name}", "kicker"),
        tag("h1", study.title),
        paragraph(study.question, "lead"),
        tag("ul", (tag("li", words_of(found)) for found in study.findings(tables))),
    )
    claims = study.claims(tables)
    parts = [Section(f"part-{place}", each.title, _part(each, tables)) for place, each in enumerate(study.exhibits)]
    sections = (
        *([Section("paper", "Beside the paper", _beside_the_paper(claims))] if claims else []),
        *parts,
        Section("setting", "Setting", _setting(study, rows, about)),
    )
    return document(f"{study.name} \u2013 gapo study", head, sections)


def _beside_the_paper(claims: Sequence[Claim]) -> Markup:
    against = [claim.words for claim in claims if claim.verdict == DISAGREES]
    reasons = dict.fromkeys(claim.reason for claim in claims if claim.verdict != AGREES and claim.reason)
    return together(
        table(_as_table(claim_cells(claims)), caption="Each claim of the paper, and what we found"),
        paragraph(f"Our result disagrees with the paper on: {'; '.join(against)}.") if against else None,
        paragraph(
            "Where ours does not show what the paper reports, the likeliest reason we can test: "
            f"{words_of('; '.join(reasons))}."
        )
        if reasons
        else None,
    )


def _part(exhibit: Exhibit, tables: Tables) -> Markup:
    rows = tables[exhibit.table]
    if not rows:
        return paragraph(f"{NOT_YET.capitalize()}.")
    source = f"{exhibit.table}.csv, beside this page"
    if isinstance(exhibit, Sheet):
        return table(_as_table(sheet_cells(exhibit, rows)), caption=f"From {source}")
    if isinstance(exhibit, Pivot):
        return table(_as_table(pivot_cells(exhibit, rows)), caption=f"From {source}")
    drawing = inline_svg(draw(exhibit, rows), key=exhibit.name, label=exhibit.title)
    return tag("div", tag("figure", drawing, tag("figcaption", f"Numbers: {source}.")), class_="wide")


def _as_table(cells: Cells) -> Table:
    heads, lines = cells
    return Table(tuple(words_of(head) for head in heads), tuple(tuple(map(words_of, line)) for line in lines))


def _setting(study: Study, rows: Rows, about: About) -> Markup:
    lines = [words_of(line) for line in setting_lines(study, rows, about)]
    return together(
        tag("ul", (tag("li", line) for line in lines)),
        tag("pre", str(about["command"]), class_="command"),
        paragraph(f"Every run's own numbers: {ROWS}. The same page as text: {PAGE}.", "soft"),
    )


def words_of(markdown: str) -> str:
    """Words without Markdown's marks: bold, code, links."""
    return re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", markdown).replace("**", "").replace("`", "")
