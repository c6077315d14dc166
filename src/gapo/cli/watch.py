"""`gapo watch`: the page of a run while it is at work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PATIENCE = 600


def watch(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run that is at work, or has ended.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on this machine; else a free one.")] = 0,
    open: Annotated[bool, typer.Option("--open", help="Show the page in the browser.")] = False,
) -> None:
    """Show the page of a run while it trains: curves, progress, time left. Ctrl-C ends it; the run goes on.

    The page is served to this machine alone (127.0.0.1), at an address nobody can guess.

    Examples:

        gapo watch runs/mini/gapo --open

        gapo watch runs/mine --port 8642
    """
    from gapo.report.live import LiveServer

    _wait_for(run)
    with LiveServer(run, port) as server:
        typer.echo(f"{server.url}\nCtrl-C ends the watch, not the run")
        if open:
            import webbrowser

            if not webbrowser.open(server.url):
                typer.echo("no browser could be opened here; open the address yourself", err=True)
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            typer.echo("\nno longer watching", err=True)


def _wait_for(run: Path) -> None:
    """A run that was just started has no folder until its model is loaded."""
    if run.exists():
        return
    import time

    typer.echo(f"waiting up to {PATIENCE // 60} minutes for {run} to begin", err=True)
    until = time.monotonic() + PATIENCE
    while not (run / "recipe.yaml").is_file() and time.monotonic() < until:
        time.sleep(0.2)
