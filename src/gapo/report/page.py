"""Write the page of a run, or of several runs compared."""

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


def write_report(folders: Path | str | Iterable[Path | str], out: Path | str | None = None) -> Path:
    """Write the page and say where it is: `<run>/report.html`, or beside the runs when there are several.

    Several runs are compared with the first; each gets its own page too, because the comparison links to it.
    """
    given = [folders] if isinstance(folders, str | Path) else list(folders)
    runs = [read_run(folder) for folder in dict.fromkeys(Path(folder).resolve() for folder in given)]
    if not runs:
        raise InputError("no run given; name at least one folder that training wrote, such as runs/<name>")
    if len(runs) == 1:
        return _write(run_page(runs[0]), _target(out) or runs[0].folder / NAME)
    at = _target(out) or _beside(runs)
    if at in {run.folder / NAME for run in runs}:
        raise InputError(f"{at} is the page of one of the runs; give --out another file for the comparison")
    for run in runs:
        _write(run_page(run), run.folder / NAME)
    return _write(comparison_page(runs, at), at)


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
