"""`gapo study`: an exhibit of the paper, made again: its runs, its tables, its page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gapo.cli.terminal import AsJson, Quiet, Voice

if TYPE_CHECKING:
    from gapo.studies.conduct import Ended
    from gapo.studies.study import Study
    from gapo.studies.tasks import Setting


def study(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A study, tuning, or all; list shows them.")] = "list",
    scale: Annotated[str, typer.Option(help="mini (the lab) or smollm2 (a real language model).")] = "mini",
    seeds: Annotated[int | None, typer.Option(min=1, help="Seeds of every run; else the usual number.")] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say what would be trained and how long it takes; leave.")
    ] = False,
    from_runs: Annotated[bool, typer.Option("--from-runs", help="Draw from what is there; train nothing.")] = False,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results"),
    runs: Annotated[Path, typer.Option(help="Folder of the runs, shared by all studies.")] = Path("runs", "studies"),
    jobs: Annotated[int | None, typer.Option(min=1, help="Runs side by side; else what is faster, tried once.")] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train the runs of a study that are not there yet, measure them, and write its page to results/NAME.

    An interrupted study goes on where it stopped; a finished one is only drawn again. `gapo study tuning` chooses
    learning rate and knobs of every method on a validation split; all other studies use what it chose.

    Examples:

      gapo study list

      gapo study noise --plan

      gapo study all --scale mini
    """
    from gapo.studies.catalogue import BY_NAME, studies_named
    from gapo.studies.scale import scale_of
    from gapo.studies.store import Store
    from gapo.studies.tasks import Setting
    from gapo.studies.tuned import read_tuned

    voice = Voice(quiet=quiet, as_json=as_json)
    if name == "list":
        voice.tell(*(f"{each.name:<12} {each.question}" for each in BY_NAME.values()))
        voice.give({"studies": {each.name: each.question for each in BY_NAME.values()}})
        return
    from gapo.report.study_files import folder_of
    from gapo.studies.tuning import TUNING

    size = scale_of(scale)
    chosen = studies_named(name, size)
    tuned = {} if chosen == [TUNING] else read_tuned(folder_of(TUNING, out, scale))
    setting = Setting(size, Store(runs), tuned, seeds)
    if not tuned and chosen != [TUNING]:
        voice.say(f"no method is tuned in {out}: defaults are used (`gapo study tuning` chooses)")
    if plan:
        _show_plan(chosen, setting, voice)
        return
    if not from_runs:
        _train(chosen, setting, jobs, voice)
    pages = {}
    for each in chosen:
        pages[each.name] = _write(each, setting, out, from_runs)
        voice.tell(f"{each.name}: {pages[each.name]}")
    voice.give({"scale": scale, "pages": {name: str(page) for name, page in pages.items()}})


def _show_plan(studies: Sequence[Study], setting: Setting, voice: Voice) -> None:
    """A line a study, and their sum: runs that studies share count once there."""
    from gapo.studies.conduct import plan
    from gapo.studies.times import in_words

    parts = [(each.name, plan([each], setting)) for each in studies]
    if len(studies) > 1:
        parts.append(("all", plan(studies, setting)))
    for name, found in parts:
        seeds = f"{found.runs} runs, {found.left} to train"
        voice.tell(
            f"{name:<12} {seeds:<28} about {in_words(found.seconds):<9} of {in_words(found.whole_seconds)} in all"
        )
    voice.give({"plan": {name: asdict(found) for name, found in parts}, "runs": str(setting.store.root)})
    voice.tell(f"{parts[-1][1].side_by_side} run(s) at a time; seconds of runs made so far are in {setting.store.root}")


def _train(studies: Sequence[Study], setting: Setting, jobs: int | None, voice: Voice) -> None:
    from gapo.studies.conduct import carry_out_all, plan

    left = plan(studies, setting).left

    def tell(ended: Ended) -> None:
        took = f"{ended.task.words}: {ended.seconds:.0f} s"
        meter.reach(left - ended.left, took, ended.seconds_left)

    if not left:
        return
    try:
        with voice.meter("runs", left) as meter:
            carry_out_all(studies, setting, tell, jobs)
    except KeyboardInterrupt:
        typer.echo(
            f"\ngapo: interrupted; finished runs are in {setting.store.root}, the same command goes on", err=True
        )
        raise typer.Exit(130) from None


def _write(study: Study, setting: Setting, out: Path, from_runs: bool) -> Path:
    from gapo.report.study_files import ROWS, folder_of, write_index, write_study
    from gapo.report.study_html import write_study_html
    from gapo.studies.about import about_study
    from gapo.studies.conduct import gathered
    from gapo.studies.rows import read_rows

    folder = folder_of(study, out, setting.scale.name)
    kept = read_rows(folder / ROWS) if from_runs else []
    rows = gathered(study, setting, kept)
    page = write_study(study, rows, about_study(study, setting), folder)
    write_index(out)
    write_study_html(folder)
    return page
