"""`gapo train RECIPE --dry-run`: check a recipe and estimate its cost, without weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from gapo.cli.terminal import Voice
    from gapo.runs.recipe import Recipe


def show_dry_run(recipe: Recipe, name: str, voice: Voice) -> None:
    """Print what was checked for each objective; exit code 1 if memory would not suffice."""
    from rich.table import Table
    from rich.text import Text

    from gapo.runs.dry_run import dry_runs
    from gapo.runs.dry_words import described

    found = dry_runs(recipe)
    for dry in found:
        purpose = f" ({dry.about.text})" if dry.about.text else ""
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        for label, words in described(dry):
            table.add_row(Text(label), Text(words))
        voice.tell(Text(f"{name}: {dry.objective}{purpose}", style="bold"), table, "")
    fits = all(dry.fits for dry in found)
    checks = [{"objective": dry.objective, "fits": dry.fits, "words": described(dry)} for dry in found]
    voice.give({"recipe": name, "fits": fits, "objectives": checks})
    if not fits:
        voice.tell("dry run: the recipe is sound, but memory would not suffice")
        raise typer.Exit(1)
    voice.tell("dry run: nothing speaks against this run")
