"""Judgings made for tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gapo.evaluate.verdicts import OK, Judging, Verdict


def game(
    name: str,
    preference: float | None,
    *,
    game: int = 0,
    weight: int = 1,
    status: str = OK,
    ours: int = 10,
    theirs: int = 10,
    subset: str = "",
) -> Verdict:
    return Verdict(name, game, bool(game), preference, weight, status, "", "", ours, theirs, subset)


def judging(verdicts: Iterable[Verdict], **conditions: Any) -> Judging:
    given = {
        "bench": "prompts.jsonl",
        "bench_version": "1",
        "complete": False,
        "model": "mine",
        "reference": "theirs",
        "judge": "a judge",
        "judge_says": "a judge",
        "prompt": "pair@1",
        "decoding": {},
        "judge_options": {},
    }
    return Judging(**(given | conditions), verdicts=tuple(verdicts))


def one_game_each(
    preference: Sequence[float], ours: Sequence[int], theirs: Sequence[int], **conditions: Any
) -> Judging:
    rows = enumerate(zip(preference, ours, theirs, strict=True))
    return judging((game(str(i), float(p), ours=int(a), theirs=int(b)) for i, (p, a, b) in rows), **conditions)


def swapped(one: Judging) -> Judging:
    """The same games with model and reference in each other's place."""
    turned = (
        game(
            v.id,
            None if v.preference is None else 1 - v.preference,
            game=v.game,
            weight=v.weight,
            status=v.status,
            ours=v.theirs,
            theirs=v.ours,
            subset=v.subset,
        )
        for v in one.verdicts
    )
    return judging(turned, bench=one.bench)


OFFICIAL_ALPACA = {
    "bench": "alpacaeval",
    "complete": True,
    "reference": "gpt4_1106_preview",
    "judge": "gpt-4-1106-preview",
    "judge_says": "gpt-4-1106-preview",
    "prompt": "alpaca_eval_clf@official",
}
OFFICIAL_ARENA = OFFICIAL_ALPACA | {
    "bench": "arena-hard",
    "reference": "gpt-4-0314",
    "prompt": "arena-hard-v0.1@official",
}
