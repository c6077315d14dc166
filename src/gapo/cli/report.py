"""`gapo report`: the page of a run, of several runs compared, or of a study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gapo.cli.terminal import AsJson, Quiet, Voice


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="FOLDER...", help="A run, several runs to compare with the first, or results/STUDY."),
    ],
    out: Annotated[Path | None, typer.Option(help="File or folder for the page; else it goes into the folder.")] = None,
    open: Annotated[bool, typer.Option("--open", help="Show the page in the browser.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write one HTML page about a run, about several runs compared with the first, or about a study.

    The page is one file that opens from disk and loads nothing.

    Examples:

        gapo report runs/quickstart

        gapo report runs/dpo runs/gapo --out comparison.html --open

        gapo report results/noise
    """
    from gapo.report import write_report  # matplotlib and pyarrow only when a page is asked for

    page = write_report(runs, out)
    voice = Voice(quiet=quiet, as_json=as_json)
    show(page, voice, opened=open)
    voice.give({"page": str(page), "runs": [str(run) for run in runs]})


def show(page: Path, voice: Voice, *, opened: bool) -> None:
    """Say where the page is, and open it if asked to."""
    voice.tell(f"The page is at {page}")
    if opened:
        in_browser(page, voice)


def in_browser(page: Path, voice: Voice) -> None:
    """Open the page; a machine without a browser is told so."""
    import webbrowser

    if not webbrowser.open(page.resolve().as_uri()):
        voice.say("no browser could be opened here; open the file yourself")
