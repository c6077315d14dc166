"""`gapo score`: from verdicts to the numbers people quote."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def score(
    judged: Annotated[
        list[Path],
        typer.Argument(metavar="JUDGED...", help="Folders of `gapo judge`, or annotations.json of alpaca_eval."),
    ],
    *,
    data_dir: Annotated[
        Path | None, typer.Option(help="A folder with AlpacaEval's df_gamed.csv; else it is fetched once from the Hub.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="A folder for scores.json and scores.md; else each judged folder gets its own."),
    ] = None,
    draws: Annotated[int, typer.Option(min=2, help="Draws of Arena-Hard's bootstrap.")] = 1000,
) -> None:
    """Win rates with their doubt: AlpacaEval (also length-controlled), Arena-Hard, or any prompts.

    A benchmark's name is used only where judge, prompt, reference and number of questions are the official ones.

    Examples:

        gapo score judged/my-model

        gapo score judged/dpo judged/gapo --data-dir alpacaeval --out scores
    """
    from rich.console import Console
    from rich.table import Table

    from gapo.evaluate.alpaca_annotations import read_annotations
    from gapo.evaluate.score_table import NUMBERS, heading_of, notes_of, numbers_of, write_scores
    from gapo.evaluate.scores import scores_of
    from gapo.evaluate.verdicts import read_judging

    console = Console(highlight=False, markup=False)
    notes: list[str] = []
    found = []
    for path in judged:
        judging = read_annotations(path, data_dir) if path.is_file() else read_judging(path)
        scores = scores_of(judging, data_dir, draws, tell=notes.append)
        if out is None and path.is_dir():
            write_scores(scores, path)
        console.print(heading_of(scores[0]), soft_wrap=True)
        table = Table(*NUMBERS, box=None, pad_edge=False)
        for each in scores:
            table.add_row(*numbers_of(each))
        console.print(table)
        found += scores
    if out is not None:
        write_scores(found, out)
    for note in (*notes_of(found), *notes):
        console.print(note, soft_wrap=True)
