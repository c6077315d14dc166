"""`gapo compare`: several runs side by side, on the same pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gapo.cli.terminal import AsJson, Quiet, Voice
from gapo.errors import InputError


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run folders; all are compared with the first.")],
    out: Annotated[Path | None, typer.Option(help="File or folder for the page; else it goes beside the runs.")] = None,
    open: Annotated[bool, typer.Option("--open", help="Show the page in the browser.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write one HTML page that sets runs side by side: paired differences, curves, the same pairs, recipes.

    Differences are paired where the runs were evaluated on the same pairs. `gapo report A B` writes the same page.

    Examples:

        gapo compare runs/mini/simpo runs/mini/gapo

        gapo compare runs/dpo runs/gapo --out comparison.html --open
    """
    from gapo.cli.report import show
    from gapo.report import write_report

    if len({folder.resolve() for folder in runs}) < 2:
        raise InputError("compare needs at least two different runs; gapo report RUN writes the page of one")
    page, voice = write_report(runs, out), Voice(quiet=quiet, as_json=as_json)
    show(page, voice, opened=open)
    voice.give({"page": str(page), "runs": [str(run) for run in runs]})
