"""The folder of a study: page, tables, figures, and what is needed to make them again; and the index of all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from gapo.report.study_page import About, markdown_table, study_page
from gapo.storage import whole_file
from gapo.studies import exhibits
from gapo.studies.catalogue import BY_NAME, REAL, REAL_STUDIES
from gapo.studies.planned import NOT_YET
from gapo.studies.rows import Rows, csv_text, read_rows, write_rows
from gapo.studies.scale import MINI
from gapo.studies.sentences import listed
from gapo.studies.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE, ROWS, ABOUT, CARD = "README.md", "rows.jsonl", "about.json", "model-card.md"
DOTS_PER_INCH = 144
GROUP = (
    "SmolLM2-135M-Instruct, trained on two cores by `gapo study real`, run after run: each page says how many of its "
    "runs there are. The method is the same code that trains larger models. What is measured here is how it treats "
    "real text, real gradients and real labels; 135 million weights, a few hundred pairs and minutes of training say "
    "nothing about the win rates of 7B models, and little about their robustness. What should carry over is "
    "arithmetic: how a gap splits into the pair's own term and the others', and what bf16 does to it."
)
BENCH = ("bench", "How fast is a step, and how much memory does it take, beside TRL?", "See its page.")


def folder_of(study: Study, results: Path, scale: str) -> Path:
    """The mini scale is the usual one; others lie below it. Long studies have one scale only."""
    return results / study.name if scale == MINI.name or study.long else results / study.name / scale


def texts_of(study: Study, rows: Rows, about: About) -> dict[str, str]:
    """Every text file of the folder but the rows themselves, by name: a function of rows and about alone."""
    tables = study.tables(rows)
    page = study_page(study, tables, rows, about)
    return {PAGE: page, **{f"{name}.csv": csv_text(table) for name, table in tables.items()}}


def write_study(study: Study, rows: Rows, about: About, folder: Path) -> Path:
    """Write the folder whole: texts, figures, rows. The page is written last."""
    write_rows(folder / ROWS, rows)
    rows = read_rows(folder / ROWS)  # as anyone reads them who makes the page again
    about = {**about, "found": study.findings(study.tables(rows))}
    _write(folder / ABOUT, json.dumps(about, indent=1) + "\n")
    for exhibit in study.exhibits:
        if isinstance(exhibit, exhibits.Figure) and (table := study.tables(rows)[exhibit.table]):
            _write_figure(exhibit, table, folder)
    texts = texts_of(study, rows, about)
    for name in sorted(texts, key=lambda name: name == PAGE):
        _write(folder / name, texts[name])
    return folder / PAGE


def read_study(folder: Path) -> tuple[Rows, About]:
    """What a page was made from."""
    return read_rows(folder / ROWS), json.loads((folder / ABOUT).read_text(encoding="utf-8"))


def disagreements(study: Study, folder: Path) -> list[str]:
    """Texts of a written folder that are not what its rows give, and files that are missing."""
    rows, about = read_study(folder)
    texts, tables = texts_of(study, rows, about), study.tables(rows)
    figures = [exhibit for exhibit in study.exhibits if isinstance(exhibit, exhibits.Figure)]
    pictures = [figure.name for figure in figures if tables[figure.table]]
    missing = [
        f"{name}.{kind}" for name in pictures for kind in ("svg", "png") if not (folder / f"{name}.{kind}").is_file()
    ]
    return missing + [name for name, text in texts.items() if not _says(folder / name, text)]


def _says(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


def write_index(results: Path) -> Path:
    """`README.md` of all results: one line a study, with the first thing it found."""
    lines = [
        [
            f"[{path.parent.relative_to(results).as_posix()}]({path.parent.relative_to(results).as_posix()}/README.md)",
            study.question,
            about["found"][0],
        ]
        for study in BY_NAME.values()
        for path in sorted((results / study.name).rglob(ABOUT))
        for about in [json.loads(path.read_text(encoding="utf-8"))]
    ]
    if (results / BENCH[0] / PAGE).is_file():
        lines.append([f"[{BENCH[0]}]({BENCH[0]}/README.md)", *BENCH[1:]])
    text = "\n\n".join(
        [
            "# Results",
            "Each folder is written whole by its command: the page, the table behind each figure, and the rows of "
            "every run. `gapo study NAME` makes one again, `gapo study all` all of them.",
            markdown_table(["study", "question", "first finding"], lines),
        ]
    )
    _write(results / PAGE, text + "\n")
    return results / PAGE


def write_group(results: Path) -> Path:
    """`real/README.md`: what every part of the studies of a real model has found so far."""
    parts = [f"# {REAL}: a real language model on real preferences", GROUP]
    for study in REAL_STUDIES:
        folder = results / study.name
        if not (folder / ABOUT).is_file():
            parts.append(f"## {study.title}\n\n{study.question} {NOT_YET.capitalize()}.")
            continue
        rows, about = read_study(folder)
        runs, planned = len({row["run"] for row in rows}), about["planned"]
        place = study.name.removeprefix(f"{REAL}/")
        card = f" Of one model: [its card]({place}/{CARD})." if (folder / CARD).is_file() else ""
        seeds = listed([str(seed) for seed in about["seeds"]])
        parts.append(
            f"## [{study.title}]({place}/{PAGE})\n\n{study.question} {' '.join(about['found'])}\n\n"
            f"{runs} of {planned} runs, seeds {seeds}.{card}"
        )
    _write(results / REAL / PAGE, "\n\n".join(parts) + "\n")
    return results / REAL / PAGE


def _write_figure(exhibit: exhibits.Figure, rows: Rows, folder: Path) -> None:
    from gapo.report.study_figures import draw
    from gapo.report.svg import svg_file

    figure: Figure = draw(exhibit, rows)
    _write(folder / f"{exhibit.name}.svg", svg_file(figure, key=exhibit.name, label=exhibit.title))
    with whole_file(folder / f"{exhibit.name}.png") as part:
        figure.savefig(part, format="png", dpi=DOTS_PER_INCH, facecolor="white", metadata={"Software": None})


def _write(path: Path, text: str) -> None:
    with whole_file(path) as part:
        part.write_text(text, encoding="utf-8")
