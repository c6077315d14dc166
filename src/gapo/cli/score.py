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
    from gapo.evaluate.score_table import COLUMNS, notes_of, row_of, write_scores
    from gapo.evaluate.scores import scores_of
    from gapo.evaluate.verdicts import read_judging

    notes: list[str] = []
    found = []
    for path in judged:
        judging = read_annotations(path, data_dir) if path.is_file() else read_judging(path)
        scores = scores_of(judging, data_dir, draws, tell=notes.append)
        if out is None and path.is_dir():
            write_scores(scores, path)
        found += scores
    if out is not None:
        write_scores(found, out)
    table = Table(*COLUMNS, box=None, pad_edge=False)
    for each in found:
        table.add_row(*row_of(each))
    Console().print(table)
    say = Console(soft_wrap=True, highlight=False, markup=False).print
    for note in (*notes_of(found), *notes):
        say(note)
