"""When a number may carry a benchmark's name, and what to say where it may not."""

from __future__ import annotations

from dataclasses import dataclass

from gapo.evaluate.judge_prompts import ALPACA_OFFICIAL, ARENA_OFFICIAL
from gapo.evaluate.questions import ALPACAEVAL, ARENA_HARD
from gapo.evaluate.verdicts import Judging


@dataclass(frozen=True)
class Conditions:
    """What a benchmark fixes: judge, prompt, reference, and how many questions are judged in how many games."""

    title: str
    owner: str  # of the questions
    judge: str
    prompt: str
    reference: str
    questions: int
    games: int

    def broken_by(self, judging: Judging) -> list[str]:
        """One short reason for each condition that does not hold; none where the official name is due."""
        unread = sum(count for status, count in judging.counts.items() if status != "ok")
        played = {(verdict.id, verdict.game) for verdict in judging.verdicts}
        games, wanted = len(played), self.questions * self.games
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
    ),
    ARENA_HARD: Conditions(
        title="Arena-Hard v0.1",
        owner="Arena-Hard",
        judge="gpt-4-1106-preview",
        prompt=ARENA_OFFICIAL,
        reference="gpt-4-0314",
        questions=500,
        games=2,
    ),
}
