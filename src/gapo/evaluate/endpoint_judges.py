"""Language models as judges, over an endpoint: AlpacaEval's way, Arena-Hard's way, and a plain comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from gapo.evaluate.endpoint import Endpoint, Reply
from gapo.evaluate.judge_prompts import FIVE_STEPS, ONE_TOKEN, WHICH_IS_BETTER, Template
from gapo.evaluate.questions import ALPACAEVAL, ARENA_HARD, Question
from gapo.evaluate.readings import SAME, for_the_model, read_five_labels, read_one_token, read_three_labels
from gapo.evaluate.verdicts import Reading

if TYPE_CHECKING:
    import httpx2


@dataclass
class EndpointJudge:
    """A language model behind an endpoint, asked with a template. `async with` holds its connections open."""

    endpoint: Endpoint
    template: Template
    max_tokens: int
    temperature: float
    games: ClassVar[int] = 2
    top_logprobs: ClassVar[int | None] = None
    usual_tokens: ClassVar[int] = 500  # of a reply, for the estimate of cost
    _client: httpx2.AsyncClient | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return self.endpoint.model

    @property
    def prompt(self) -> str:
        return self.template.name

    @property
    def options(self) -> Mapping[str, Any]:
        options = {"temperature": self.temperature, "max_tokens": self.max_tokens}
        return options if self.top_logprobs is None else options | {"top_logprobs": self.top_logprobs}

    async def __aenter__(self) -> EndpointJudge:
        self._client = await self.endpoint.client().__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def messages(self, question: Question, ours: str, theirs: str, swapped: bool) -> list[dict[str, str]]:
        first, second = (theirs, ours) if swapped else (ours, theirs)
        return self.template.filled(question.prompt, first, second)

    async def decide(self, question: Question, ours: str, theirs: str, game: int, swapped: bool) -> Reading:
        if self._client is None:
            raise RuntimeError("a judge over an endpoint is used inside `async with judge`")
        reply = await self.endpoint.chat(
            self._client,
            self.messages(question, ours, theirs, swapped),
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            top_logprobs=self.top_logprobs,
        )
        return for_the_model(self.read(reply), swapped)

    def read(self, reply: Reply) -> Reading:
        raise NotImplementedError


@dataclass
class AlpacaJudge(EndpointJudge):
    """AlpacaEval's way: one game, one token m or M, its log-probs."""

    template: Template = ONE_TOKEN
    max_tokens: int = 1
    temperature: float = 1.0  # of the token that is drawn; the log-probs do not depend on it
    games: ClassVar[int] = 1
    top_logprobs: ClassVar[int | None] = 5
    usual_tokens: ClassVar[int] = 1

    async def decide(self, question: Question, ours: str, theirs: str, game: int, swapped: bool) -> Reading:
        if ours == theirs:  # a draw, as AlpacaEval has it, for nothing
            return Reading(0.5, by=SAME)
        return await super().decide(question, ours, theirs, game, swapped)

    def read(self, reply: Reply) -> Reading:
        return read_one_token(reply)


@dataclass
class ArenaJudge(EndpointJudge):
    """Arena-Hard's way: two games with the order swapped, five labels."""

    template: Template = FIVE_STEPS
    max_tokens: int = 4096
    temperature: float = 0.0
    usual_tokens: ClassVar[int] = 700

    def read(self, reply: Reply) -> Reading:
        return read_five_labels(reply)


@dataclass
class PairJudge(EndpointJudge):
    """Which is better, in both orders: for any prompts."""

    template: Template = WHICH_IS_BETTER
    max_tokens: int = 1024
    temperature: float = 0.0
    usual_tokens: ClassVar[int] = 200

    def read(self, reply: Reply) -> Reading:
        return read_three_labels(reply)


def judge_of(bench: str, endpoint: Endpoint, **given: Any) -> EndpointJudge:
    """The judge that a bench asks for; what is given as None stays as it is usual for that judge."""
    kinds: dict[str, type[EndpointJudge]] = {ALPACAEVAL: AlpacaJudge, ARENA_HARD: ArenaJudge}
    kind: Callable[..., EndpointJudge] = kinds.get(bench, PairJudge)
    return kind(endpoint, **{name: value for name, value in given.items() if value is not None})
