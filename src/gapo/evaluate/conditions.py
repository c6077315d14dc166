"""When a number may carry a benchmark's name, and what to say where it may not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gapo.evaluate.judge_prompts import ALPACA_OFFICIAL, ARENA_OFFICIAL
from gapo.evaluate.questions import ALPACAEVAL, ARENA_HARD
from gapo.evaluate.readings import TEXT
from gapo.evaluate.verdicts import OK, Judging


@dataclass(frozen=True)
class Conditions:
    """What a benchmark fixes: judge, prompt, reference, how many questions are judged in how many games, and how."""

    title: str
    owner: str  # of the questions
    judge: str
    prompt: str
    reference: str
    questions: int
    games: int
    options: Mapping[str, Any] = field(default_factory=dict)  # of the judge
    log_probs: bool = False  # the preference is a probability, not a letter

    def broken_by(self, judging: Judging) -> list[str]:
        """One short reason for each condition that does not hold; none where the official name is due."""
        games = len({(verdict.id, verdict.game) for verdict in judging.verdicts})
        wanted = self.questions * self.games
        unread = sum(verdict.status != OK for verdict in judging.verdicts)
        by_text = judging.judge_options.get("read_by", {}).get(TEXT, 0) if self.log_probs else 0
        other = [name for name, value in self.options.items() if judging.judge_options.get(name, value) != value]
        reasons = [
            (judging.judge != self.judge, f"the judge is {judging.judge}, not {self.judge}"),
            (
                judging.judge == self.judge and judging.judge_says != self.judge,
                f"the server says its model is {judging.judge_says or 'nothing'}, not {self.judge}",
            ),
            (judging.prompt != self.prompt, f"the judge's prompt is {judging.prompt}, not {self.prompt}"),
            (judging.reference != self.reference, f"the reference is {judging.reference}, not {self.reference}"),
            (not judging.complete, f"the questions are not the {self.questions} official ones"),
            (games != wanted, f"there are {games} games, not {wanted}"),
            (unread > 0, f"{unread} of {games} games have no readable verdict"),
            (by_text > 0, f"{by_text} verdicts were read from text, not from log-probs"),
            (bool(other), f"the judge's {', '.join(other)} is not the official one"),
        ]
        return [reason for broken, reason in reasons if broken]


CONDITIONS = {
    ALPACAEVAL: Conditions(
        title="AlpacaEval 2.0",
        owner="AlpacaEval",
        judge="gpt-4-1106-preview",
        prompt=ALPACA_OFFICIAL,
        reference="gpt4_1106_preview",
        questions=805,
        games=1,
        log_probs=True,
    ),
    ARENA_HARD: Conditions(
        title="Arena-Hard v0.1",
        owner="Arena-Hard",
        judge="gpt-4-1106-preview",
        prompt=ARENA_OFFICIAL,
        reference="gpt-4-0314",
        questions=500,
        games=2,
        options={"temperature": 0.0},
    ),
}
