"""`gapo train`: a recipe becomes one run, or one run for each objective it names."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gapo.cli.launch import rank_here
from gapo.cli.leaving import command_to_resume, may_leave
from gapo.cli.terminal import AsJson, Quiet, Voice, only_our_words

if TYPE_CHECKING:
    from gapo.errors import Interrupted
    from gapo.runs.recipe import Recipe
    from gapo.runs.run import RunResult


Row = dict[str, str]  # a cell for each column
ONE_TABLE = 76  # columns of a terminal that hold the whole result
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
    quiet: Quiet = False,
    as_json: AsJson = False,
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
    voice = Voice(quiet=quiet, as_json=as_json, speaks=rank_here() == 0)
    if show:
        voice.give(complete)
        if not as_json:
            typer.echo(yaml.safe_dump(complete, sort_keys=False), nl=False)
        return
    folders = [Path(one["train"]["output_dir"]) for one in runs_of(complete)]  # wrong knobs are wrong before all else
    only_our_words(voice)
    if dry_run:
        from gapo.cli.dry_run import show_dry_run

        show_dry_run(complete, recipe, voice)
        return
    from gapo.model.ranks import join, launched, leave
    from gapo.runs.resume import folder_for

    if processes > 1 and launched() == 1:
        from gapo.cli.launch import launch

        folder_for(complete, folders, resume=resume, given=given, named=named)  # what is wrong is said once
        launch(processes, f"go on with {command_to_resume()}")
        return
    ranks = join()
    folder = ranks.first_decides(lambda: folder_for(complete, folders, resume=resume, given=given, named=named))
    complete["train"]["output_dir"] = str(folder)
    with may_leave(_left):
        results = [_run(one, resume, voice) for one in runs_of(complete)]
        if ranks.first:
            _report(results, folder, voice)
    leave()


def _run(recipe: Recipe, resume: bool, voice: Voice) -> RunResult:
    from gapo.cli.train_display import RunDisplay
    from gapo.runs.run import execute
    from gapo.training.stopping import Stopping

    voice.say(f"{recipe['objective']['name']} -> {recipe['train']['output_dir']}")
    command = ["gapo", *sys.argv[1:]]
    return execute(
        recipe, command=command, resume=resume, say=voice.say, display=RunDisplay(voice), stopping=Stopping()
    )


def _left(asked: Interrupted) -> str:
    saved = f"saved {asked.checkpoint}" if asked.checkpoint else "left at once, and what was written is whole"
    return f"{saved}; go on with {command_to_resume()}"


def _report(results: list[RunResult], folder: Path, voice: Voice) -> None:
    """Write the pages, then tell what came out and where it is."""
    from gapo.report import write_report

    pages = [write_report([result.folder]) for result in results]
    page = write_report([result.folder for result in results], folder / "report.html") if len(results) > 1 else pages[0]
    _tell(results, page, voice)
    runs = [
        {"folder": str(result.folder), "model": str(result.folder / "model"), "report": str(own), **result.evals}
        for result, own in zip(results, pages, strict=True)
    ]
    voice.give({"folder": str(folder), "report": str(page), "runs": runs})


def _tell(results: list[RunResult], page: Path, voice: Voice) -> None:
    """The result table, where the report is, and what to try next."""
    from rich.table import Table
    from rich.text import Text

    measured = any(result.evals["measures"] for result in results)
    voice.tell(_title(results[0].evals))
    rows = [_row(result.evals) for result in results]
    quality = [_measures(result.evals) for result in results] if measured else []
    for columns in _sheets(rows, quality, narrow=voice.out.width < ONE_TABLE):
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
        for name in columns[0]:
            table.add_column(name, justify="left" if name == "objective" else "right", no_wrap=True)
        for row in columns:
            table.add_row(*row.values())
        voice.tell(table)
    for result in results:
        for warning in result.evals["warnings"]:  # warnings quote replies
            voice.tell(Text.assemble((result.evals["objective"], "yellow"), f": {_printable(warning)}"))
    if measured:
        voice.tell("win: true quality against the start model, LC: length-controlled; skill: sums")
    else:
        _show_replies(results[-1].evals, voice)
    voice.tell(f"\nreport  {page}", *NEXT)


def _show_replies(evals: dict[str, Any], voice: Voice) -> None:
    """Held-out prompts with the reply before and after, as text and nothing else."""
    from rich.text import Text

    for reply in evals["replies"]:
        voice.tell(Text(f"\n{_printable(reply['prompt'])}", style="bold"))
        voice.tell(Text.assemble(("before  ", "dim"), _printable(reply["before"])))
        voice.tell(Text.assemble(("after   ", "dim"), _printable(reply["after"])))


def _printable(text: str) -> str:
    """Without control characters: a reply must not clear the screen."""
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def _title(evals: dict[str, Any]) -> str:
    noise = evals["noise"]
    flips = f"{noise['flipped']} of {noise['of']} training labels flipped"
    kind = "clean held-out" if evals["held_out"] else "training"
    return f"\nReward accuracy on {evals['pairs']} {kind} pairs; {flips}"


def _sheets(rows: list[Row], quality: list[Row], *, narrow: bool) -> list[list[Row]]:
    """One table, or two where the terminal is too narrow for one."""
    if not quality:
        return [rows]
    if narrow:
        return [rows, [{"objective": row["objective"], **more} for row, more in zip(rows, quality, strict=True)]]
    return [[row | more for row, more in zip(rows, quality, strict=True)]]


def _row(evals: dict[str, Any]) -> Row:
    before, after = evals["before"], evals["after"]
    low, high = after["accuracy_interval"]
    return {
        "objective": evals["objective"],
        "before": f"{before['accuracy']:.1%}",
        "after": f"{after['accuracy']:.1%}",
        "95 % interval": f"{low:.1%} - {high:.1%}",
        "margin": f"{after['margin']:+.3f}",
        "time": f"{evals['seconds']:.0f} s",
    }


def _measures(evals: dict[str, Any]) -> Row:
    names = {"win_rate": "win", "lc_win_rate": "LC win", "skill_kept": "skill"}
    shares = {word: f"{evals['measures'][key]:.1%}" for key, word in names.items()}
    return {**shares, "drift": f"{evals['measures']['drift']:.2f}"}
