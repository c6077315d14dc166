"""`gapo train RECIPE --dry-run`: check a recipe and estimate its cost, without weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from gapo.runs.recipe import Recipe


def show_dry_run(recipe: Recipe, name: str) -> None:
    """Print what was checked for each objective; exit code 1 if memory would not suffice."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from gapo.runs.dry_run import dry_runs
    from gapo.runs.dry_words import described

    console = Console(highlight=False, markup=False)
    found = dry_runs(recipe)
    for dry in found:
        purpose = f" ({dry.about.text})" if dry.about.text else ""
        console.print(Text(f"{name}: {dry.objective}{purpose}", style="bold"), soft_wrap=True)
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        for label, words in described(dry):
            table.add_row(Text(label), Text(words))
        console.print(table)
        console.print()
    if not all(dry.fits for dry in found):
        console.print("dry run: the recipe is sound, but memory would not suffice")
        raise typer.Exit(1)
    console.print("dry run: nothing speaks against this run")
