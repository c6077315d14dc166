"""`gapo judge`: a language model decides between a model's answers and a reference's."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gapo.cli.leaving import may_leave
from gapo.cli.terminal import AsJson, Meter, Quiet, Voice
from gapo.errors import InputError, Interrupted

if TYPE_CHECKING:
    from gapo.evaluate.cost import Cost
    from gapo.evaluate.judge import Progress
    from gapo.evaluate.verdicts import Judging


def judge(
    answers: Annotated[Path, typer.Argument(metavar="ANSWERS", help="The model's answers, of gapo generate.")],
    base_url: Annotated[str, typer.Option(help="Such as http://localhost:8000/v1.")],
    model: Annotated[str, typer.Option(help="The judge: a model of that server.")],
    out: Annotated[Path, typer.Option(help="Folder for the verdicts.")],
    bench: Annotated[str, typer.Option(help="alpacaeval, arena-hard, or prompts.")] = "alpacaeval",
    against: Annotated[Path | None, typer.Option(help="Answers to compare with; else the bench's own.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of the bench's files; else the Hub.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first questions.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Spend without asking.")] = False,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests at a time.")] = 8,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds for one request.")] = 120.0,
    retries: Annotated[int, typer.Option(min=0, help="Further tries of a request.")] = 6,
    key_variable: Annotated[str, typer.Option(help="Variable with the key.")] = "OPENAI_API_KEY",
    prompt_file: Annotated[Path | None, typer.Option(help="The judge's prompt; else our own wording.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Of a reply; else the bench's.")] = None,
    temperature: Annotated[float | None, typer.Option(min=0, help="Else the bench's.")] = None,
    price_in: Annotated[float | None, typer.Option(min=0, help="Dollars per million tokens in.")] = None,
    price_out: Annotated[float | None, typer.Option(min=0, help="Dollars per million tokens out.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Ask again what could not be read.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Let a judge compare two models' answers; `gapo score` makes numbers of it.

    Verdicts are kept as they come: the same command goes on, and nothing is paid for twice.

    Example: gapo judge answers.json --bench alpacaeval --base-url URL --model NAME --out judged
    """
    from gapo.evaluate.answers import baseline_answers, read_answers
    from gapo.evaluate.cost import cost_of
    from gapo.evaluate.endpoint import Endpoint
    from gapo.evaluate.judge import games_of, judge_answers, judge_of, left_of
    from gapo.evaluate.judge_prompts import read_template
    from gapo.evaluate.questions import bench_named
    from gapo.evaluate.verdict_cache import VerdictCache

    if (price_in is None) != (price_out is None):
        raise InputError("a price has two sides; give both --price-in and --price-out")
    voice = Voice(quiet=quiet, as_json=as_json)
    endpoint = Endpoint(base_url, model, key_variable, concurrency, timeout, retries)
    questions = bench_named(bench, data_dir=data_dir, limit=limit)
    ours = read_answers(answers, questions)
    theirs = read_answers(against, questions) if against else baseline_answers(questions)
    template = read_template(prompt_file) if prompt_file else None
    judge = judge_of(questions.name, endpoint, template=template, max_tokens=max_tokens, temperature=temperature)
    cache = VerdictCache.of(judge.name)
    if again:
        cache.forget_unreadable()
    games = games_of(questions, ours, theirs, judge)
    left = left_of(games, cache)
    if left:
        asyncio.run(endpoint.reach())
        known = f"{len(games) - len(left):,} of {len(games):,} games are decided; " if len(left) < len(games) else ""
        _confirm(f"{known}{model} gets ", cost_of(left, judge, price_in, price_out), yes, voice)

    def kept(_: Interrupted) -> str:
        done = len(games) - len(left_of(games, cache))
        return f"interrupted; {done:,} of {len(games):,} games are decided and kept, the same command goes on"

    with may_leave(kept), voice.meter("games", len(games), len(games) - len(left)) as meter:
        tell = Unreadable(meter).told
        judging = judge_answers(questions, ours, theirs, judge, cache, out, tell, concurrency=concurrency)
    voice.tell(_words(judging, out))
    voice.give(_summary(judging, out))


def _confirm(who: str, cost: Cost, yes: bool, voice: Voice) -> None:
    """Say what it costs; go on only if the user wants it."""
    if yes:
        voice.say(who + cost.words)
    elif not sys.stdin.isatty():
        raise InputError(f"{who}{cost.words}; add --yes to spend it")
    elif not typer.confirm(f"{who}{cost.words}. Go on?", err=True):
        raise typer.Exit(1)


class Unreadable:
    """Counts at once what could not be read, beside the bar."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._bad: Counter[str] = Counter()

    def told(self, progress: Progress) -> None:
        if progress.reading.preference is None:
            self._bad[progress.reading.status] += 1
        self._meter.reach(progress.done, ", ".join(f"{count} {status}" for status, count in self._bad.items()))


def _summary(judging: Judging, folder: Path) -> dict[str, Any]:
    return {
        "folder": str(folder),
        "bench": judging.bench,
        "model": judging.model,
        "reference": judging.reference,
        "judge": judging.judge,
        "judge_says": judging.judge_says,
        "prompt": judging.prompt,
        "judge_options": dict(judging.judge_options),
        "games": len(judging.verdicts),
        "counts": judging.counts,
    }


def _words(judging: Judging, folder: Path) -> str:
    counts = ", ".join(f"{count:,} {status}" for status, count in judging.counts.items())
    who = f"{judging.model} against {judging.reference}"
    lines = [f"{who}, {len(judging.verdicts):,} games by {judging.judge}: {counts}"]
    if judging.judge_says not in ("", judging.judge):
        lines.append(f"the server says it is {judging.judge_says}, asked for was {judging.judge}")
    if judging.counts.get("failed"):
        lines.append("what failed is asked for again by the same command")
    if set(judging.counts) - {"ok", "failed"}:
        lines.append("what could not be read counts as no game; --again asks for it once more")
    lines.append(f"gapo score {folder}")
    return "\n".join(lines)
