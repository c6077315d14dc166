"""Answers to a bench, made once: what was made before a kill, or for fewer questions, is not made again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from gapo.errors import InputError
from gapo.evaluate.answers import Answers, found_answers, read_about, write_answers
from gapo.evaluate.partial import Made, Partial, difference
from gapo.evaluate.questions import ALPACAEVAL, ARENA_HARD, Bench, Question

DEFAULT_LENGTHS = {ALPACAEVAL: 2048, ARENA_HARD: 4096}  # tokens; the second is the official one
DEFAULT_LENGTH = 1024
Keep = Callable[[Sequence[Made]], None]


@dataclass(frozen=True)
class Decoding:
    """How tokens are chosen: the most likely (temperature 0), or drawn with a seed of each question's own."""

    max_new_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    system: str = ""

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1:
            raise InputError(f"--max-new-tokens must be 1 or more, not {self.max_new_tokens}")
        if not 0 <= self.temperature < float("inf"):
            raise InputError(f"--temperature must be 0 (greedy) or more, not {self.temperature:g}")
        if not 0 < self.top_p <= 1:
            raise InputError(f"--top-p must lie above 0 and be at most 1, not {self.top_p:g}")

    @property
    def sampled(self) -> bool:
        return self.temperature > 0

    def facts(self) -> dict[str, Any]:
        """What the answers depend on; greedy ones know no seed and no top-p."""
        facts = asdict(self)
        return facts if self.sampled else {key: facts[key] for key in ("max_new_tokens", "temperature", "system")}


class Answerer(Protocol):
    """Whoever answers. `facts` are all that the answers depend on, `notes` what else a reader may want to know."""

    model: str
    facts: Mapping[str, Any]
    notes: Mapping[str, Any]

    def answer(self, questions: Sequence[Question], keep: Keep) -> None:
        """Answer every question, in any order; what is made is handed to `keep` at once."""


def generate_answers(
    answerer: Answerer, bench: Bench, path: Path, told: Callable[[int, int], None] = lambda done, total: None
) -> Answers:
    """All answers, in `path` in the bench's official form. `told` hears how many are done, of how many."""
    done = {made.id: made for made in _made_before(answerer, bench, path)}
    partial = Partial(path, {"model": answerer.model, "decoding": dict(answerer.facts)})
    done |= partial.read(bench)
    told(len(done), len(bench.questions))

    def keep(made: Sequence[Made]) -> None:
        partial.keep(made, bench)
        done.update({each.id: each for each in made})
        told(len(done), len(bench.questions))

    left = [each for each in bench.questions if each.id not in done]
    if left:
        answerer.answer(left, keep)
    answers = _answers(answerer, bench, path, [done[each.id] for each in bench.questions])
    write_answers(answers, bench, path)
    partial.finish()
    return answers


def seed_of(question: Question, seed: int) -> int:
    """A question's own seed, the same whatever is asked beside it."""
    content = json.dumps([seed, question.id, question.prompt])
    return int.from_bytes(hashlib.blake2b(content.encode(), digest_size=8).digest(), "big") >> 33  # 31 bits: any server


def _made_before(answerer: Answerer, bench: Bench, path: Path) -> list[Made]:
    """The answers of a finished file with the same maker, perhaps for a smaller limit."""
    if not path.exists():
        return []
    about = read_about(path)
    if not about:
        raise InputError(f"{path} exists and does not say how it was made; remove it or choose another --out")
    if about.get("bench") != bench.name:
        raise InputError(f"{path} holds answers to {about.get('bench')}, not to {bench.name}; choose another --out")
    other = difference(about, {"model": answerer.model, "decoding": dict(answerer.facts)})
    if other:
        raise InputError(f"{path} exists with {other}; remove it or choose another --out")
    rows = found_answers(path, bench)
    if about.get("questions", 0) > len(rows):
        raise InputError(
            f"{path} holds {about['questions']} answers and these {len(bench.questions)} questions would leave "
            f"{len(rows)} of them; choose another --out"
        )
    finishes = {
        name: finish for finish, names in (about.get("notes", {}).get("finish") or {}).items() for name in names
    }
    return [Made(name, row.text, row.tokens, finishes.get(name, "end")) for name, row in rows.items()]


def _answers(answerer: Answerer, bench: Bench, path: Path, made: Sequence[Made]) -> Answers:
    finishes: dict[str, list[str]] = {}
    for each in made:
        if each.finish != "end":
            finishes.setdefault(each.finish, []).append(each.id)
    counts = {"cut": len(finishes.get("length", [])), "empty": sum(not each.text for each in made)}
    return Answers(
        model=answerer.model,
        bench=bench.name,
        by_id={each.id: each.text for each in made},
        decoding=dict(answerer.facts),
        path=path,
        tokens={each.id: each.tokens for each in made if each.tokens is not None},
        notes={**counts, "finish": finishes, **answerer.notes},
    )
