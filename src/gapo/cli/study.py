"""`gapo study`: an exhibit of the paper, made again: its runs, its tables, its page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gapo.cli.leaving import may_leave
from gapo.cli.terminal import AsJson, Quiet, Voice
from gapo.errors import InputError

if TYPE_CHECKING:
    from gapo.report.publish import Results
    from gapo.studies.conduct import Ended
    from gapo.studies.study import Study
    from gapo.studies.tasks import Setting

LOG = "queue.log"  # of a study in the background, beside its runs


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
    background: Annotated[
        bool, typer.Option("--background", help="Train in a process that outlives this terminal; it writes a log.")
    ] = False,
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

      gapo study real --plan

      gapo study real --background
    """
    from gapo.studies.catalogue import BY_NAME, scale_for, studies_named, tuning_for
    from gapo.studies.scale import scale_of
    from gapo.studies.store import Store

    voice = Voice(quiet=quiet, as_json=as_json)
    if name == "list":
        voice.tell(*(f"{each.name:<12} {each.question}" for each in BY_NAME.values()))
        voice.give({"studies": {each.name: each.question for each in BY_NAME.values()}})
        return
    from gapo.report.publish import Results

    size = scale_for(name, scale_of(scale))
    chosen = studies_named(name, size)
    tuning = tuning_for(chosen)
    results = Results(out, Store(runs), size, seeds)
    if background and (plan or from_runs):
        raise InputError("--background trains, --plan and --from-runs do not; leave one of them out")
    if background and _in_background(chosen, results, voice):
        return
    if tuning in chosen and not (plan or from_runs):  # first, and whole: the others' recipes hang on what it chooses
        _train([tuning], results, jobs, voice)
        results.write(tuning, results.setting([tuning]))
    setting = results.setting(chosen)
    if tuning is not None and not setting.tuned:
        voice.say(f"no method is tuned in {out}: defaults are used (`gapo study {tuning.name}` chooses)")
    if plan:
        _show_plan(chosen, setting, voice)
        return
    if not from_runs:
        _train(chosen, results, jobs, voice)
    settings = {each.name: results.setting([each]) if each is tuning else setting for each in chosen}
    pages = {each.name: results.write(each, settings[each.name], kept=from_runs) for each in chosen}
    voice.tell(*(f"{name}: {page or 'no run yet'}" for name, page in pages.items()))
    voice.give({"scale": size.name, "pages": {name: page and str(page) for name, page in pages.items()}})


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


def _in_background(studies: Sequence[Study], results: Results, voice: Voice) -> bool:
    """Leave the training to a process of its own, and say how to follow and stop it. False if nothing is left."""
    from gapo.cli.background import in_background
    from gapo.runs.alive import refuse_held
    from gapo.studies.conduct import plan
    from gapo.studies.times import in_words

    runs = results.store.root
    refuse_held(runs)
    found, log = plan(studies, results.setting(studies)), runs / LOG
    if not found.left:
        return False
    process = in_background(runs, log)
    voice.tell(
        f"process {process} trains {found.left} of {found.runs} runs, about {in_words(found.seconds)}; log: {log}",
        f"`kill {process}` stops it, and the same command goes on; pages in {results.folder} grow with every run",
    )
    voice.give({"process": process, "log": str(log), "left": found.left, "seconds": found.seconds})
    return True


def _train(studies: Sequence[Study], results: Results, jobs: int | None, voice: Voice) -> None:
    """Do what is left to do. Pages of long studies grow with every run."""
    from gapo.runs.alive import at_work
    from gapo.studies.conduct import carry_out_all, plan

    setting = results.setting(studies)
    left = plan(studies, setting).left

    def tell(ended: Ended) -> None:
        took = f"{ended.task.words}: {ended.seconds:.0f} s"
        meter.reach(left - ended.left, took, ended.seconds_left)
        for each in studies:
            if each.long and each.observe in ended.task.observers:
                _publish(each, setting, results, voice)

    if not left:
        return
    kept = f"interrupted; finished runs are in {setting.store.root}, the same command goes on"
    with may_leave(lambda _: kept), at_work(setting.store.root), voice.meter("runs", left) as meter:
        carry_out_all(studies, setting, tell, jobs)


def _publish(study: Study, setting: Setting, results: Results, voice: Voice) -> None:
    """A page of what there is so far. One that cannot be drawn must not end a queue of hours: the runs are kept."""
    try:
        results.write(study, setting)
    except Exception as error:
        voice.say(f"the page of {study.name} cannot be drawn yet ({error})")
