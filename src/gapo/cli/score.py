"""`gapo score`: from verdicts to the numbers people quote."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gapo.cli.terminal import AsJson, Quiet, Voice


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
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Win rates with their doubt: AlpacaEval (also length-controlled), Arena-Hard, or any prompts.

    A benchmark's name is used only where judge, prompt, reference and number of questions are the official ones.

    Examples:

        gapo score judged/my-model

        gapo score judged/dpo judged/gapo --data-dir alpacaeval --out scores
    """
    from dataclasses import asdict

    from rich.table import Table

    from gapo.evaluate.alpaca_annotations import read_annotations
    from gapo.evaluate.score_table import JSON, NUMBERS, heading_of, notes_of, numbers_of, write_scores
    from gapo.evaluate.scores import scores_of
    from gapo.evaluate.verdicts import read_judging

    voice = Voice(quiet=quiet, as_json=as_json)
    notes: list[str] = []
    found = []
    for path in judged:
        judging = read_annotations(path, data_dir) if path.is_file() else read_judging(path)
        scores = scores_of(judging, data_dir, draws, tell=notes.append)
        if out is None and path.is_dir():
            write_scores(scores, path)
        table = Table(*NUMBERS, box=None, pad_edge=False)
        for each in scores:
            table.add_row(*numbers_of(each))
        voice.tell(heading_of(scores[0]), table)
        found += scores
    if out is not None:
        write_scores(found, out)
    notes = [*notes_of(found), *notes]
    voice.tell(*notes)
    folders = [out] if out is not None else [path for path in judged if path.is_dir()]
    written = [str(folder / JSON) for folder in folders]
    voice.give({"scores": [asdict(score) for score in found], "notes": notes, "written": written})
