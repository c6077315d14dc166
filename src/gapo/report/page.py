"""Write the page of a run, of several runs compared, or of a study: by what the folder holds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from gapo.errors import InputError
from gapo.report.comparison_page import comparison_page
from gapo.report.run_files import Run, read_run
from gapo.report.run_page import run_page
from gapo.storage import whole_file

NAME = "report.html"
RUN, STUDY, AUDIT = "a run", "a study", "an audit"


def write_report(folders: Path | str | Iterable[Path | str], out: Path | str | None = None) -> Path:
    """Write the page and say where it is: `<folder>/report.html`, or beside the runs when there are several.

    Several runs are compared with the first; each gets its own page too, because the comparison links to it.
    """
    named = [folders] if isinstance(folders, str | Path) else list(folders)
    given = list(dict.fromkeys(Path(folder).resolve() for folder in named))
    if not given:
        raise InputError("no run given; name at least one folder that training wrote, such as runs/<name>")
    if others := [folder for folder in given if kind_of(folder) != RUN]:
        if len(given) > 1:
            raise InputError(f"{others[0]} holds {kind_of(others[0])}, and only runs are compared; name it alone")
        return _write_other(given[0], _target(out))
    runs = [read_run(folder) for folder in given]
    if len(runs) == 1:
        return _write(run_page(runs[0]), _target(out) or runs[0].folder / NAME)
    at = _target(out) or _beside(runs)
    if at in {run.folder / NAME for run in runs}:
        raise InputError(f"{at} is the page of one of the runs; give --out another file for the comparison")
    for run in runs:
        _write(run_page(run), run.folder / NAME)
    return _write(comparison_page(runs, at), at)


def kind_of(folder: Path) -> str:
    """What a folder holds, by its files; one that holds nothing known is taken for a run, which says what is wrong."""
    if (folder / "recipe.yaml").is_file():
        return RUN
    if (folder / "audit.json").is_file():
        return AUDIT
    return STUDY if all((folder / name).is_file() for name in ("rows.jsonl", "about.json")) else RUN


def _write_other(folder: Path, out: Path | None) -> Path:
    if kind_of(folder) == STUDY:
        from gapo.report.study_html import write_study_html  # the studies are many modules

        return write_study_html(folder, out)
    from gapo.report.audit_page import write_audit_page

    return write_audit_page(folder, out=out)


def _target(out: Path | str | None) -> Path | None:
    if out is None:
        return None
    path = Path(out).resolve()
    return path / NAME if path.is_dir() else path


def _beside(runs: Sequence[Run]) -> Path:
    """The folder that holds all runs, unless that is the whole disk."""
    try:
        parent = Path(os.path.commonpath([run.folder.parent for run in runs]))
    except ValueError:  # different drives
        parent = Path(runs[0].folder.anchor)
    if parent == parent.parent:
        raise InputError("the runs share no folder; say with --out where the comparison should go")
    return parent / NAME


def _write(page: str, path: Path) -> Path:
    """All or nothing: somebody may have the old page open, and the disk may be full."""
    with whole_file(path) as part:
        part.write_text(page, encoding="utf-8")
    return path
