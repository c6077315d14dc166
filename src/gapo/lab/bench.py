"""The laboratory's held-out prompts as a bench, with the start model's replies as references."""

from __future__ import annotations

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from gapo.evaluate.answers import Answers
from gapo.evaluate.questions import Bench, Question, version_of
from gapo.lab.measures import held_out_prompts, start_replies
from gapo.lab.sampling import MAX_NEW_TOKENS, sample_replies
from gapo.lab.split import HELD_OUT

NAME = "lab"
START = "lab start model"
PROMPTS = 400  # as many as `measure` asks


def lab_bench(prompts: int = PROMPTS, seed: int = 0) -> Bench:
    """The first held-out prompts, by their place; the start model replies with the luck that `seed` gives."""
    questions = tuple(Question(str(place), prompt) for place, prompt in enumerate(held_out_prompts(prompts)))
    replies = start_replies(prompts, seed)
    references = {question.id: reply for question, reply in zip(questions, replies, strict=True)}
    return Bench(NAME, questions, START, references, version_of(questions), complete=prompts == HELD_OUT)


def lab_answers(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, bench: Bench, name: str = "policy", seed: int = 0
) -> Answers:
    """A model's replies. With the bench's seed it has the luck that the start model had."""
    replies = sample_replies(model, tokenizer, [question.prompt for question in bench.questions], seed)
    by_id = {question.id: reply for question, reply in zip(bench.questions, replies, strict=True)}
    return Answers(name, bench.name, by_id, {"temperature": 1.0, "max_new_tokens": MAX_NEW_TOKENS, "seed": seed}, None)
