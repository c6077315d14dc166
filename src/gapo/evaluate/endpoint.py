"""Any OpenAI-compatible server: one chat request, asked again with patience where the server is busy or broken.

The key comes from the environment when a request is sent. No object keeps it, and every text that comes back is
searched for it before anyone can print or write it.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from gapo.errors import InputError

if TYPE_CHECKING:
    import httpx2

Message = Mapping[str, str]
Done = TypeVar("Done")
Sleep = Callable[[float], Awaitable[None]]


class EndpointError(InputError):
    """The server did not do what was asked; the message says which server, what it said, and what to do."""


class Refused(EndpointError):
    """The server would refuse every request like this one: wrong key, no such model, no money."""


@dataclass(frozen=True)
class Reply:
    """What came back. `logprobs` are those of the first token's alternatives, None where the server gave none."""

    text: str
    finish: str
    model: str
    logprobs: Mapping[str, float] | None
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True)
class Endpoint:
    """A server, a model of it, and how patient we are. `sleep` is the clock that tests replace."""

    base_url: str
    model: str
    key_variable: str = "OPENAI_API_KEY"
    concurrency: int = 8
    timeout: float = 60.0
    retries: int = 6
    sleep: Sleep = field(default=asyncio.sleep, repr=False, compare=False)

    def client(self) -> httpx2.AsyncClient:
        """To be used as `async with endpoint.client() as client`, once for all requests."""
        raise NotImplementedError

    async def chat(
        self,
        client: httpx2.AsyncClient,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        temperature: float,
        top_logprobs: int | None = None,
        seed: int | None = None,
    ) -> Reply:
        """One chat completion. EndpointError after the last try."""
        raise NotImplementedError


async def in_turn(
    work: Iterable[Callable[[], Awaitable[Done]]], concurrency: int, done: Callable[[Done], Any]
) -> None:
    """Do `work`, at most so many at a time; each result goes to `done` at once.

    After an error nothing new is begun, what is under way may finish (it is paid for), and the error is raised.
    """
    raise NotImplementedError
