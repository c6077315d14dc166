"""`gapo train`: a recipe becomes one run, or one run for each objective it names."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from gapo.runs.recipe import Recipe
    from gapo.runs.run import RunResult


NEXT = (
    "next    gapo train mini noise.kind=length noise.rate=0.4     other wrong labels",
    "        gapo train mini objective.name=[dpo,dr_dpo,gapo]     other methods",
    "        gapo train quickstart                                a real language model",
)


def train(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="A name (gapo list shows them) or a .yaml file.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Change any value: section.key=value.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest checkpoint of the run.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Print the complete recipe and leave.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything but the weights; print memory, steps, hours; leave.")
    ] = False,
    processes: Annotated[
        int, typer.Option("--processes", min=1, help="Processes of this machine that share each step (DDP).")
    ] = 1,
) -> None:
    """Train on preference pairs, evaluate before and after, and write a report.

    Sections: model, data, noise, objective, anchor, train (names of TrainingArguments).

    Examples:

      gapo train mini

      gapo train mini objective.name=dpo noise.rate=0.4

      gapo train mini model.name=DIR data.train=FILE train.output_dir=OUT

      accelerate launch --config_file fsdp2-1x8.yaml -m gapo train llama3-8b-instruct
    """
    import yaml

    from gapo.runs.recipe import read_recipe, runs_of

    given = any(text.startswith("train.output_dir=") for text in overrides or [])
    complete = read_recipe(recipe, overrides or [])
    named = complete["train"]["output_dir"] is not None
    if complete["train"]["output_dir"] is None:
        complete["train"]["output_dir"] = str(Path("runs") / Path(recipe).stem)
    if show:
        typer.echo(yaml.safe_dump(complete, sort_keys=False), nl=False)
        return
    folders = [Path(one["train"]["output_dir"]) for one in runs_of(complete)]  # wrong knobs are wrong before all else
    _quiet()
    if dry_run:
        from gapo.cli.dry_run import show_dry_run

        show_dry_run(complete, recipe)
        return
    from gapo.model.ranks import join, launched, leave
    from gapo.runs.resume import folder_for

    if processes > 1 and launched() == 1:
        from gapo.cli.launch import launch

        folder_for(complete, folders, resume=resume, given=given, named=named)  # what is wrong is said once
        launch(processes)
        return
    ranks = join()
    folder = ranks.first_decides(lambda: folder_for(complete, folders, resume=resume, given=given, named=named))
    complete["train"]["output_dir"] = str(folder)
    try:
        results = [_run(one, resume, speaks=ranks.first) for one in runs_of(complete)]
    except KeyboardInterrupt:
        if ranks.first:
            typer.echo("\ngapo: interrupted; what was written is whole (--resume goes on from a checkpoint)", err=True)
        raise typer.Exit(130) from None
    if ranks.first:
        _tell(results, folder)
    leave()


def _run(recipe: Recipe, resume: bool, *, speaks: bool) -> RunResult:
    from rich.console import Console

    from gapo.runs.run import execute

    folder = Path(recipe["train"]["output_dir"])
    console = Console(stderr=True, highlight=False, quiet=not speaks)
    console.print(f"{recipe['objective']['name']} -> {folder}", markup=False)
    return execute(
        recipe, command=["gapo", *sys.argv[1:]], resume=resume, say=lambda text: console.print(text, markup=False)
    )


def _tell(results: list[RunResult], folder: Path) -> None:
    """The result table, where the report is, and what to try next."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from gapo.report import write_report

    pages = [write_report([result.folder]) for result in results]
    page = write_report([result.folder for result in results], folder / "report.html") if len(results) > 1 else pages[0]
    console = Console(highlight=False)
    measured = any(result.evals["measures"] for result in results)
    console.print(_title(results[0].evals), soft_wrap=True)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("objective", "before", "after", "95 % interval", "margin", "time"):
        table.add_column(name, justify="left" if name == "objective" else "right", no_wrap=True)
    for name in ("win", "LC win", "skill", "drift") if measured else ():
        table.add_column(name, justify="right", no_wrap=True)
    for result in results:
        table.add_row(*_row(result.evals, measured))
    console.print(table)
    for result in results:
        for warning in result.evals["warnings"]:
            words = Text.assemble(
                (result.evals["objective"], "yellow"), f": {_printable(warning)}"
            )  # warnings quote replies
            console.print(words, soft_wrap=True)
    if not measured:
        _show_replies(results[-1].evals, console)
    if measured:
        console.print("win: true quality against the start model, LC: length-controlled; skill: sums", soft_wrap=True)
    console.print(f"\nreport  {page}", soft_wrap=True, markup=False)
    for text in NEXT:
        console.print(text, markup=False, soft_wrap=True)


def _show_replies(evals: dict[str, Any], console: Any) -> None:
    """Held-out prompts with the reply before and after, as text and nothing else."""
    from rich.text import Text

    for reply in evals["replies"]:
        console.print(Text(f"\n{_printable(reply['prompt'])}", style="bold"))
        console.print(Text.assemble(("before  ", "dim"), _printable(reply["before"])))
        console.print(Text.assemble(("after   ", "dim"), _printable(reply["after"])))


def _printable(text: str) -> str:
    """Without control characters: a reply must not clear the screen."""
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def _title(evals: dict[str, Any]) -> str:
    noise = evals["noise"]
    flips = f"{noise['flipped']} of {noise['of']} training labels flipped"
    kind = "clean held-out" if evals["held_out"] else "training"
    return f"\nReward accuracy on {evals['pairs']} {kind} pairs; {flips}"


def _row(evals: dict[str, Any], measured: bool) -> list[str]:
    before, after, measures = evals["before"], evals["after"], evals["measures"]
    low, high = after["accuracy_interval"]
    cells = [
        evals["objective"],
        f"{before['accuracy']:.1%}",
        f"{after['accuracy']:.1%}",
        f"{low:.1%} - {high:.1%}",
        f"{after['margin']:+.3f}",
        f"{evals['seconds']:.0f} s",
    ]
    if measured:
        cells += [f"{measures[key]:.1%}" for key in ("win_rate", "lc_win_rate", "skill_kept")]
        cells.append(f"{measures['drift']:.2f}")
    return cells


def _quiet() -> None:
    """Our own words and bars only: other libraries speak when something is wrong."""
    import logging
    import warnings

    import transformers
    from rich.console import Console
    from rich.logging import RichHandler

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    warnings.filterwarnings("ignore", module="(torch|transformers|accelerate|peft|huggingface_hub)")
    from gapo.cli.launch import rank_here

    console = Console(stderr=True, quiet=rank_here() > 0)
    handler = RichHandler(console=console, show_time=False, show_path=False, show_level=True)
    logging.getLogger("gapo").handlers = [handler]
    logging.getLogger("gapo").propagate = False
