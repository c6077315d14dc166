"""All games of a model against a reference, decided by any judge."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from gapo.errors import InputError
from gapo.evaluate.answers import Answers
from gapo.evaluate.endpoint import EndpointError, Refused, Unanswered, in_turn
from gapo.evaluate.endpoint_judges import AlpacaJudge, ArenaJudge, EndpointJudge, PairJudge, judge_of
from gapo.evaluate.questions import Bench, Question
from gapo.evaluate.readings import shown_swapped
from gapo.evaluate.verdict_cache import VerdictCache
from gapo.evaluate.verdicts import FAILED, Judging, Reading, Verdict, write_judging

__all__ = [
    "AlpacaJudge",
    "ArenaJudge",
    "EndpointJudge",
    "Game",
    "Judge",
    "PairJudge",
    "Progress",
    "games_of",
    "judge_answers",
    "judge_of",
    "left_of",
]

FEWEST_IN_A_ROW = 4  # failed games, one after another, that mean the server is at fault and not the game


class Judge(Protocol):
    """Decides one game. `prompt` is name@version; `options` is what else a verdict depends on."""

    @property
    def name(self) -> str: ...
    @property
    def prompt(self) -> str: ...
    @property
    def games(self) -> int: ...
    @property
    def options(self) -> Mapping[str, Any]: ...
    async def decide(self, question: Question, ours: str, theirs: str, game: int, swapped: bool) -> Reading: ...


@dataclass(frozen=True)
class Game:
    """One question, both answers, and the order they are shown in."""

    question: Question
    ours: str
    theirs: str
    number: int
    swapped: bool
    key: str

    def verdict(self, reading: Reading) -> Verdict:
        return Verdict(
            id=self.question.id,
            game=self.number,
            swapped=self.swapped,
            preference=reading.preference,
            weight=reading.weight,
            status=reading.status,
            text=reading.text,
            key=self.key,
            ours=len(self.ours),
            theirs=len(self.theirs),
            subset=self.question.subset,
        )


@dataclass(frozen=True)
class Progress:
    """How far a judging is: games decided of all, and the reading that was just made."""

    done: int
    total: int
    reading: Reading


def games_of(bench: Bench, answers: Answers, reference: Answers, judge: Judge) -> list[Game]:
    """Every game that is to be played, in the order of the questions."""
    return [
        _game(question, _answer(answers, question), _answer(reference, question), number, judge)
        for question in bench.questions
        for number in range(judge.games)
    ]


def _answer(answers: Answers, question: Question) -> str:
    if question.id not in answers.by_id:
        raise InputError(f"{answers.model} has no answer to question {question.id}; make it with gapo generate")
    return answers.by_id[question.id]


def _game(question: Question, ours: str, theirs: str, number: int, judge: Judge) -> Game:
    swapped = shown_swapped(judge.games, question.prompt, number)
    content = [judge.name, judge.prompt, question.prompt, ours, theirs, swapped, dict(judge.options)]
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return Game(question, ours, theirs, number, swapped, digest)


def left_of(games: Iterable[Game], cache: VerdictCache) -> list[Game]:
    """Those the cache has no verdict of, each content once."""
    return list({game.key: game for game in games if cache.get(game.key) is None}.values())


def judge_answers(
    bench: Bench,
    answers: Answers,
    reference: Answers,
    judge: Judge,
    cache: VerdictCache,
    folder: Path,
    tell: Callable[[Progress], Any] = lambda progress: None,
    *,
    concurrency: int = 1,
) -> Judging:
    """Play the games that were not played yet, and write the judging of all of them to `folder`.

    When the judge is gone, what it has decided is in the cache, and the error says how many games are left.
    """
    games = games_of(bench, answers, reference, judge)
    left = left_of(games, cache)
    try:
        failed = asyncio.run(_play(judge, left, cache, concurrency, tell, len(games)))
    except EndpointError as error:
        still = sum(cache.get(game.key) is None for game in games)
        raise EndpointError(
            f"{error}; {len(games) - still} of {len(games)} games are decided and kept, "
            f"{still} are left: the same command goes on with them"
        ) from None
    readings = [cache.get(game.key) or failed[game.key] for game in games]
    judging = Judging(
        bench=bench.name,
        bench_version=bench.version,
        complete=bench.complete,
        model=answers.model,
        reference=reference.model,
        judge=judge.name,
        judge_says=", ".join(sorted({reading.says for reading in readings if reading.says})),
        prompt=judge.prompt,
        decoding=answers.decoding,
        judge_options={**judge.options, "read_by": dict(Counter(each.by for each in readings if each.by))},
        verdicts=tuple(game.verdict(reading) for game, reading in zip(games, readings, strict=True)),
    )
    write_judging(judging, folder)
    return judging


async def _play(
    judge: Judge,
    games: Sequence[Game],
    cache: VerdictCache,
    concurrency: int,
    tell: Callable[[Progress], Any],
    total: int,
) -> dict[str, Reading]:
    """Decide the games; every verdict is in the cache before anything else happens. Returns those that failed.

    A game that fails for itself (too long for the judge, say) is noted, and the others go on.
    """
    failed: dict[str, Reading] = {}
    decided = in_a_row = 0
    before = total - len(games)
    patience = max(FEWEST_IN_A_ROW, concurrency)

    def hopeless(error: EndpointError) -> bool:
        """The server is gone, or it has refused whatever it was asked from the first game on."""
        if before + decided:
            return isinstance(error, Unanswered) and in_a_row >= patience
        return in_a_row >= min(patience, len(games))

    async def play(game: Game) -> tuple[Game, Reading]:
        nonlocal in_a_row
        try:
            reading = await judge.decide(game.question, game.ours, game.theirs, game.number, game.swapped)
        except Refused:
            raise
        except EndpointError as error:
            in_a_row += 1
            if hopeless(error):
                raise
            return game, Reading(None, FAILED, text=str(error))
        in_a_row = 0
        return game, reading

    def keep(played: tuple[Game, Reading]) -> None:
        nonlocal decided
        game, reading = played
        if reading.status == FAILED:
            failed[game.key] = reading
        else:
            cache.put(game.key, reading)
            decided += 1
        tell(Progress(before + decided, total, reading))

    holding: Any = judge if isinstance(judge, AbstractAsyncContextManager) else nullcontext()
    async with holding:
        await in_turn((partial(play, game) for game in games), concurrency, keep)
    return failed
