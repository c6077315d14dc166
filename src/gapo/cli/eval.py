"""`gapo eval`: a model's rewards, tasks, drift, or all of it beside a base."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from gapo.cli.terminal import AsJson, Quiet, Voice, only_our_words
from gapo.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from gapo.evaluate.tables import Table

MODEL_HELP = "A run folder, a model or adapter folder, a Hub id, lab, smollm2-135m-instruct."
Model = Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP)]
Against = Annotated[str, typer.Option("--against", metavar="BASE", help="The model to compare with.")]
Split = Annotated[str | None, typer.Option(help="The split of a Hub data set.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Only the first so many; the result says so.")]
Template = Annotated[str, typer.Option(help="auto: the chat template for conversations; chat: always; none: never.")]
MaxLength = Annotated[int, typer.Option(min=2, help="Tokens of prompt and response; longer responses are cut.")]
Out = Annotated[Path | None, typer.Option(help="Folder for the results; else the run's, or evals/<model>.")]
DataDir = Annotated[
    Path | None, typer.Option(help="Local files instead of the Hub: DIR/<task>/test.jsonl, fewshot.jsonl.")
]
Shots = Annotated[int | None, typer.Option("--num-fewshot", min=0, help="Few-shot items; else the task's own number.")]
Chat = Annotated[bool, typer.Option("--chat-template", help="Ask in the model's chat template.")]
NewTokens = Annotated[int | None, typer.Option(min=1, help="Most tokens of a generated answer; else the task's own.")]
Trust = Annotated[bool, typer.Option("--trust-remote-code", help="Run Python code that comes with the model.")]
BatchSize = Annotated[int, typer.Option(min=1, help="Requests at once.")]


class CommandOrTask(TyperGroup):
    """`gapo eval gsm8k MODEL`: what is no command, nor nearly one, is a task."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = args and (args[0] in self.commands or args[0] in ctx.help_option_names)
        if args and not named and get_close_matches(args[0], self.commands, cutoff=0.8):
            raise InputError(f"there is no `gapo eval {args[0]}`; {did_you_mean(args[0], self.commands)}")
        return super().parse_args(ctx, args if not args or named else ["tasks", *args])


app = typer.Typer(
    cls=CommandOrTask,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Evaluate a model: reward, drift, all, or tasks of lm-eval by their names.\n\n"
    "Example: gapo eval gsm8k arc_challenge MODEL --limit 100",
)


@app.command()
def reward(
    model: Model,
    data: Annotated[str, typer.Option(help="Preference pairs: a file, an embedded set, a Hub id.")],
    reference: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Measure DPO's implicit reward above this model.")
    ] = None,
    objective: Annotated[str | None, typer.Option(metavar="NAME", help="The reward of this objective.")] = None,
    split: Split = None,
    limit: Limit = None,
    template: Template = "auto",
    max_length: MaxLength = 2048,
    trust: Trust = False,
    out: Out = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Reward accuracy on pairs: with interval, by subset, and how far it follows length.

    Without --reference and --objective the reward is the log-likelihood per token.

    Example: gapo eval reward runs/mini/gapo --data lab:test
    """
    from gapo.evaluate.reward import encode_for, pair_rewards, reward_evaluation, reward_kind, subject_logps
    from gapo.evaluate.subject import load_subject, need_same_tokens
    from gapo.evaluate.tables import reward_table
    from gapo.pairs.formats import load_pairs

    voice = _voice(quiet, as_json)
    kind = reward_kind(objective, reference)
    pairs = load_pairs(data, split=split, limit=limit)
    subject = load_subject(model, voice.say, trust_remote_code=trust)
    encoded = encode_for(subject, pairs, template=template, max_length=max_length)
    theirs = None
    if reference is not None:
        other = load_subject(reference, voice.say, trust_remote_code=trust)
        need_same_tokens(subject, other, "a reward above a reference")
        theirs = subject_logps(other, encoded)
    rewards = pair_rewards(encoded, kind.reward, subject_logps(subject, encoded), theirs)
    about = {"model": model, "reference": reference, "data": data, "split": split, "limit": limit}
    found = {**about, "left_out": len(pairs.bad_rows) + len(pairs) - len(rewards), **reward_evaluation(rewards, kind)}
    _show(voice, f"{model} on {len(rewards):,} pairs of {data}; reward: {kind.words}", reward_table(found))
    _keep(voice, found, reward_table(found), "reward", model, out)


@app.command()
def drift(
    model: Model,
    against: Against,
    data: Annotated[str, typer.Option(help="Pairs (their responses are read), or a file of prompts (it replies).")],
    own_replies: Annotated[
        bool, typer.Option("--own-replies", help="On replies that MODEL draws, also where there are pairs.")
    ] = False,
    split: Split = None,
    limit: Limit = 256,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Most tokens of a drawn reply.")] = 128,
    seed: Annotated[int, typer.Option(help="Of drawn replies.")] = 0,
    template: Template = "auto",
    max_length: MaxLength = 2048,
    trust: Trust = False,
    out: Out = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """How far MODEL is from BASE: mean KL divergence per response token, exact, both ways.

    Example: gapo eval drift runs/mini/gapo --against lab --data lab:test
    """
    from gapo.evaluate.drift import drift_of, drift_report, drift_responses
    from gapo.evaluate.subject import load_subject, need_same_tokens
    from gapo.evaluate.tables import drift_table
    from gapo.model.policy import fitting_length
    from gapo.pairs.encode import Encoder

    voice = _voice(quiet, as_json)
    subject, base = (load_subject(name, voice.say, trust_remote_code=trust) for name in (model, against))
    need_same_tokens(subject, base, "a KL divergence")
    encoder = Encoder(subject.tokenizer, max_length=fitting_length(subject.model, max_length), template=template)
    drawn = {"seed": seed, "max_new_tokens": max_new_tokens}
    responses, on = drift_responses(subject, data, encoder, split=split, limit=limit, own=own_replies, **drawn)
    about = {"model": model, "base": against, "data": data, "split": split, "limit": limit, "on": on, "seed": seed}
    found = {**about, **drift_report(drift_of(subject.model, base.model, responses, subject.pad_id))}
    _show(voice, f"{model} from {against} on {on} of {data}, {found['tokens']:,} tokens", drift_table(found))
    _keep(voice, found, drift_table(found), "drift", model, out)


@app.command()
def tasks(
    names: Annotated[
        list[str], typer.Argument(metavar="TASK... MODEL", help="Names of lm-eval's tasks; MODEL is last.")
    ],
    data_dir: DataDir = None,
    num_fewshot: Shots = None,
    chat_template: Chat = False,
    limit: Limit = None,
    max_new_tokens: NewTokens = None,
    batch_size: BatchSize = 8,
    seed: Annotated[int, typer.Option(help="Of few-shot items and of sampling.")] = 1234,
    trust: Trust = False,
    out: Out = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Tasks of lm-eval (the extra `eval` of gapo), from the Hub or from local files; `tasks` may be left out.

    Example: gapo eval gsm8k arc_challenge MODEL --data-dir DIR --limit 100
    """
    from gapo.evaluate.reasoning import TaskSettings, need_extra, run_tasks
    from gapo.evaluate.subject import load_subject
    from gapo.evaluate.tables import task_table

    if len(names) < 2:
        raise InputError(
            f"{names[0]} stands alone; name the tasks first and the model last: gapo eval gsm8k arc_challenge MODEL"
        )
    *wanted, model = names
    need_extra(wanted)
    voice = _voice(quiet, as_json)
    settings = TaskSettings(data_dir, num_fewshot, limit, chat_template, max_new_tokens, batch_size, seed)
    subject = load_subject(model, voice.say, trust_remote_code=trust)
    found = {"model": model, **run_tasks(subject, wanted, settings)}
    _show(voice, f"{model}, lm-eval {found['lm_eval']}, data from {found['data']}, seed {seed}", task_table(found))
    _keep(voice, found, task_table(found), "-".join(["tasks", *wanted])[:80], model, out)


@app.command("all")
def everything(
    model: Model,
    against: Against,
    data: Annotated[str | None, typer.Option(help="Preference pairs for reward accuracy and drift.")] = None,
    task: Annotated[list[str] | None, typer.Option("--task", help="A task of lm-eval; may be repeated.")] = None,
    judged: Annotated[list[Path] | None, typer.Option(help="A folder of `gapo judge` about MODEL; repeatable.")] = None,
    judged_base: Annotated[list[Path] | None, typer.Option(help="The same about BASE.")] = None,
    data_dir: DataDir = None,
    num_fewshot: Shots = None,
    chat_template: Chat = False,
    task_limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many items of each task.")] = None,
    max_new_tokens: NewTokens = None,
    batch_size: BatchSize = 8,
    split: Split = None,
    limit: Limit = None,
    template: Template = "auto",
    max_length: MaxLength = 2048,
    seed: Annotated[int, typer.Option(help="Of the lab's replies.")] = 0,
    trust: Trust = False,
    out: Out = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """One table of MODEL beside BASE: alignment, reasoning, reward accuracy, drift.

    Writes evals.json and evals.md, and for a run folder a section of its page. Models of the lab are judged by true
    quality, at no cost.

    Example: gapo eval all runs/mini/gapo --against lab --data lab:test
    """
    from gapo.evaluate.comparison_words import cells
    from gapo.evaluate.reasoning import TaskSettings
    from gapo.evaluate.subject import run_folder
    from gapo.evaluate.tables import Table, short_name
    from gapo.runs.evals import Wanted, evaluate_all, write_comparison

    voice = _voice(quiet, as_json)
    settings = TaskSettings(data_dir, num_fewshot, task_limit, chat_template, max_new_tokens, batch_size)
    pairs = {"data": data, "split": split, "limit": limit, "template": template, "max_length": max_length}
    folders = {"judged": tuple(judged or ()), "base_judged": tuple(judged_base or ())}
    chosen = {"tasks": tuple(task or ()), "settings": settings, "seed": seed, "trust_remote_code": trust}
    wanted = Wanted(**pairs, **folders, **chosen)  # type: ignore[arg-type]
    comparison = evaluate_all(model, against, wanted, voice.say)
    rows = [cells(row) for row in comparison["rows"]]
    _show(voice, "", Table(("measure", model, against, "difference (paired)", "n"), rows))
    run = run_folder(model) if out is None else None
    path = write_comparison(comparison, run or out or Path("evals") / short_name(model))
    voice.tell(f"\nresults {path}")
    page = None
    if run is not None:
        from gapo.report import write_report

        page = write_report([run])
        voice.tell(f"report  {page}")
    voice.give({"results": str(path), "report": str(page) if page else None, "comparison": comparison})


def _keep(voice: Voice, found: Mapping[str, Any], table: Table, name: str, model: str, out: Path | None) -> None:
    from gapo.evaluate.subject import run_folder
    from gapo.evaluate.tables import markdown, short_name, write_result

    run = run_folder(model)
    folder = out or (run / "evals" if run is not None else Path("evals") / short_name(model))
    path = write_result(folder, name, found, markdown(table))
    voice.tell(f"\nresults {path}")
    voice.give({"results": str(path), **found})


def _show(voice: Voice, title: str, table: Table) -> None:
    from rich.table import Table as Shown
    from rich.text import Text

    shown = Shown(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in table.header:
        shown.add_column(Text(name))
    for row in table.rows:
        shown.add_row(*(Text(cell) for cell in row))
    voice.tell(*filter(None, [title]), shown)


def _voice(quiet: bool, as_json: bool) -> Voice:
    voice = Voice(quiet=quiet, as_json=as_json)
    only_our_words(voice)
    return voice
