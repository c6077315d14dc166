"""Answers of a model behind an OpenAI-compatible server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from gapo.evaluate.endpoint import Endpoint, EndpointError, Refused, in_turn
from gapo.evaluate.generation import Decoding, Keep, seed_of
from gapo.evaluate.partial import Made
from gapo.evaluate.questions import Question

IN_A_ROW = 8  # questions without an answer, one after another: then it is the server and not the question
FINISHES = {"stop": "end", "": "end", "eos": "end"}  # other words are kept as the server said them


class ServedAnswerer:
    """Asks for several answers at a time; the chat template is the server's."""

    def __init__(self, endpoint: Endpoint, decoding: Decoding, *, name: str | None = None) -> None:
        self.model, self.endpoint, self.decoding = name or endpoint.model, endpoint, decoding
        self.facts: Mapping[str, Any] = {"engine": "server", "served": endpoint.model, **decoding.facts()}
        self.notes: Mapping[str, Any] = {"base_url": endpoint.base_url}
        self._failed: list[tuple[Question, EndpointError]] = []
        self._in_a_row = 0

    def answer(self, questions: Sequence[Question], keep: Keep) -> None:
        asyncio.run(self._answer(questions, keep))
        if self._failed:
            question, error = self._failed[0]
            raise EndpointError(
                f"{len(self._failed)} of {len(questions)} questions got no answer (the first, {question.id}: {error}); "
                "the others are kept: run the same command again, perhaps with fewer --max-new-tokens"
            )

    async def _answer(self, questions: Sequence[Question], keep: Keep) -> None:
        await self.endpoint.reach()
        async with self.endpoint.client() as client:

            def asking(question: Question) -> Callable[[], Awaitable[list[Made]]]:
                return lambda: self._ask(client, question)

            await in_turn(map(asking, questions), self.endpoint.concurrency, lambda made: keep(made) if made else None)

    async def _ask(self, client: Any, question: Question) -> list[Made]:
        """One answer, or none if only this question fails."""
        drawn = self.decoding.sampled
        try:
            reply = await self.endpoint.chat(
                client,
                self._messages(question.prompt),
                max_tokens=self.decoding.max_new_tokens,
                temperature=self.decoding.temperature,
                seed=seed_of(question, self.decoding.seed) if drawn else None,
                top_p=self.decoding.top_p if drawn and self.decoding.top_p < 1 else None,
            )
        except Refused:
            raise
        except EndpointError as error:
            self._in_a_row += 1
            if self._in_a_row >= IN_A_ROW:
                raise
            self._failed.append((question, error))
            return []
        self._in_a_row = 0
        if reply.model:
            self.notes = {**self.notes, "server_says": reply.model}
        text = reply.text.encode(errors="replace").decode().strip()  # half a surrogate pair is no text
        return [Made(question.id, text, reply.completion_tokens or None, FINISHES.get(reply.finish, reply.finish))]

    def _messages(self, prompt: str) -> list[dict[str, str]]:
        system = [{"role": "system", "content": self.decoding.system}] if self.decoding.system else []
        return [*system, {"role": "user", "content": prompt}]
