"""The second skill, which preference training does not touch: adding and taking away small numbers."""

from __future__ import annotations

from dataclasses import dataclass

from gapo.lab.world import PROMPT_END

LARGEST = 9  # operands run from 0 to this


@dataclass(frozen=True, slots=True)
class Question:
    """A sum and its one right answer."""

    prompt: str
    answer: str


def all_questions() -> list[Question]:
    """Every sum of two operands, and every difference that is not negative: 155 questions."""
    numbers = range(LARGEST + 1)
    sums = [Question(f"add {a} and {b} {PROMPT_END}", str(a + b)) for a in numbers for b in numbers]
    differences = [Question(f"take {b} from {a} {PROMPT_END}", str(a - b)) for a in numbers for b in range(a + 1)]
    return sums + differences
