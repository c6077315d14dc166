"""`gapo report`: the page of a run, or of several runs compared."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gapo.cli.terminal import AsJson, Quiet, Voice


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders; several are compared with the first.")],
    out: Annotated[Path | None, typer.Option(help="File or folder for the page; else it goes beside the run.")] = None,
    open: Annotated[bool, typer.Option("--open", help="Show the page in the browser.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write one HTML page about a run, or about several runs compared with the first.

    The page is one file that opens from disk and loads nothing.

    Examples:

        gapo report runs/quickstart

        gapo report runs/dpo runs/gapo --out comparison.html --open
    """
    from gapo.report import write_report  # matplotlib and pyarrow only when a page is asked for

    page = write_report(runs, out)
    voice = Voice(quiet=quiet, as_json=as_json)
    voice.tell(f"The page is at {page}")
    voice.give({"page": str(page), "runs": [str(run) for run in runs]})
    if open:
        import webbrowser

        webbrowser.open(page.as_uri())
