"""Results of a real model on the project's README: `python -m gapo.report.front_page README.md` writes them anew."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from gapo.report.study_files import ABOUT, PAGE, read_study
from gapo.report.study_page import markdown_table
from gapo.runs.computed import Blocks, fill
from gapo.studies.catalogue import REAL_STUDIES
from gapo.studies.planned import NOT_YET

FIRST = 2  # sentences


def real_table(results: Path) -> str:
    """A line a part: how many of its runs there are, and the first of what they found; its page has the rest."""
    lines = []
    for study in REAL_STUDIES:
        folder = results / study.name
        if not (folder / ABOUT).is_file():
            lines.append([study.title, "0", NOT_YET])
            continue
        rows, about = read_study(folder)
        runs = f"{len({row['run'] for row in rows})} of {about['planned']}"
        lines.append([f"[{study.title}]({results.name}/{study.name}/{PAGE})", runs, " ".join(about["found"][:FIRST])])
    return markdown_table(["part", "runs", "found"], lines)


def blocks(readme: Path) -> Blocks:
    return {"real": partial(real_table, readme.parent / "results")}


if __name__ == "__main__":
    fill(Path(sys.argv[1]), blocks(Path(sys.argv[1])))
