"""A small bench of invented questions, two models' answers, and a judge on loopback with an opinion."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from gapo.evaluate.answers import Answers
from gapo.evaluate.questions import Bench, Question, version_of
from loopback import Says, completion

OURS = re.compile(r"ours (\d+)")


def bench(size: int, name: str = "alpacaeval") -> Bench:
    questions = tuple(Question(str(n), f"Question number {n}?", "even" if n % 2 == 0 else "odd") for n in range(size))
    references = {each.id: f"theirs {each.id}" for each in questions}
    return Bench(name, questions, "base", references, version_of(questions), False)


def answers(questions: Bench, model: str = "ours") -> Answers:
    return Answers(model, questions.name, {each.id: f"{model} {each.id}" for each in questions.questions}, {}, None)


def files(folder: Path, size: int) -> tuple[Path, Path, Path]:
    """Prompts, our answers and theirs, as files that the command reads."""
    prompts, ours, theirs = (folder / name for name in ("prompts.jsonl", "ours.jsonl", "theirs.jsonl"))
    questions = bench(size).questions
    _write(prompts, [{"id": each.id, "prompt": each.prompt} for each in questions])
    for path, model in ((ours, "ours"), (theirs, "theirs")):
        rows = [{"id": each.id, "prompt": each.prompt, "output": f"{model} {each.id}"} for each in questions]
        _write(path, [{**row, "model": model} for row in rows])
    return prompts, ours, theirs


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def shown(body: dict[str, Any]) -> tuple[int, bool]:
    """The question's number and whether our answer was shown first."""
    text = body["messages"][-1]["content"]
    return int(OURS.search(text)[1]), text.index("ours ") < text.index("theirs ")


def likes_ours(number: int) -> float:
    """P(our answer is better) in the opinion of the judge on loopback."""
    return (number % 10 + 0.5) / 10


def one_token(body: dict[str, Any], _: int = 0) -> Says:
    """Log-probs of m and M that have this opinion, whichever is shown first, and a third token that has half of all."""
    from math import log

    number, first = shown(body)
    p = likes_ours(number) if first else 1 - likes_ours(number)
    tokens = {"m": log(p / 2), "M": log((1 - p) / 2), "Both": log(0.5)}
    return Says(completion("m" if p > 0.5 else "M", finish="length", logprobs=tokens))


def five_labels(body: dict[str, Any], _: int = 0) -> Says:
    """[[A>>B]] and so on, by the question's number."""
    number, first = shown(body)
    label = ("A>>B", "A>B", "A=B", "B>A", "B>>A")[number % 5]
    if not first:
        label = label.translate(str.maketrans("AB", "BA"))
    return Says(completion(f"I think [[{label}]]"))


def three_labels(body: dict[str, Any], _: int = 0) -> Says:
    number, first = shown(body)
    better = "A" if first == (number % 2 == 0) else "B"
    return Says(completion(f"[[{better}]]"))
