"""What the laboratory knows of two of its models: true quality through the judges' own path, and the sums."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from gapo.evaluate.comparison import Measure, score_measures
from gapo.evaluate.comparison_words import PERCENT, REASONING
from gapo.evaluate.quantity import scaled, share_of
from gapo.evaluate.scores import scores_of
from gapo.evaluate.subject import Subject
from gapo.lab.judge import judge_policy
from gapo.lab.sampling import sample_replies
from gapo.lab.skill import all_questions
from gapo.lab.tokenizer import vocabulary

SUMS = "sums of the lab"


def is_lab(subject: Subject) -> bool:
    """Whether the model speaks the laboratory's words, and no others."""
    words = vocabulary()
    return subject.tokenizer.get_vocab() == {word: place for place, word in enumerate(words)}


def lab_measures(model: Subject, base: Subject, seed: int = 0) -> tuple[list[Measure], list[Measure]]:
    """Win rates of both against the start model on the same prompts with the same luck, and the skill both kept."""
    found = []
    for subject in (model, base):
        with TemporaryDirectory() as folder:
            judging = judge_policy(subject.model, subject.tokenizer, Path(folder), name=subject.name, seed=seed)
        found.append([*score_measures(scores_of(judging), judging), _sums(subject)])
    return found[0], found[1]


def _sums(subject: Subject) -> Measure:
    """All sums, answered with the likeliest words."""
    questions = all_questions()
    asked = [question.prompt for question in questions]
    answers = sample_replies(subject.model, subject.tokenizer, asked, seed=0, temperature=0.0, max_new_tokens=3)
    right = np.array([float(a == q.answer) for a, q in zip(answers, questions, strict=True)])
    items = {question.prompt: 100 * won for question, won in zip(questions, right.tolist(), strict=True)}
    facts = {"decoding": "greedy", "num_fewshot": 0}
    return Measure(REASONING, f"{SUMS}, exact match", PERCENT, scaled(share_of(right), 100), items, None, facts)
