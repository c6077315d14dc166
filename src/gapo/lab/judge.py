"""The true-quality judge: it decides like any judge, through the same code, and is never wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from gapo.evaluate.answers import baseline_answers
from gapo.evaluate.judge import judge_answers
from gapo.evaluate.questions import Question
from gapo.evaluate.verdict_cache import VerdictCache
from gapo.evaluate.verdicts import Judging, Reading
from gapo.lab.bench import PROMPTS, lab_answers, lab_bench
from gapo.lab.measures import wins
from gapo.lab.world import quality


@dataclass(frozen=True)
class TrueQualityJudge:
    """The reply with the higher true quality is better, whatever the order; equal ones tie."""

    name: str = "true quality"
    prompt: str = "true-quality@1"
    games: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)

    async def decide(self, question: Question, ours: str, theirs: str, game: int, swapped: bool) -> Reading:
        our_quality, their_quality = quality(question.prompt, ours), quality(question.prompt, theirs)
        text = f"{our_quality:.4f} against {their_quality:.4f}"
        return Reading(float(wins(our_quality, their_quality)), text=text, says=self.name, by="quality")


def judge_policy(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    *,
    name: str = "policy",
    prompts: int = PROMPTS,
    seed: int = 0,
) -> Judging:
    """A policy against the start model on held-out prompts; `gapo score FOLDER` and `scores_of` read it like any other.

    Nothing is kept from one judging to the next: the judge costs nothing, and a changed world must not find old words.
    """
    bench = lab_bench(prompts, seed)
    answers = lab_answers(model, tokenizer, bench, name, seed)
    with TemporaryDirectory() as passing:
        cache = VerdictCache(Path(passing) / "verdicts.jsonl")
        return judge_answers(bench, answers, baseline_answers(bench), TrueQualityJudge(), cache, folder)
