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
from gapo.evaluate.replies import (
    EndpointError,
    Later,
    Refused,
    Reply,
    Unanswered,
    read_reply,
    refusal,
    unspoken_in,
    why_unreachable,
)

if TYPE_CHECKING:
    import httpx2

__all__ = ["Endpoint", "EndpointError", "Refused", "Reply", "Unanswered", "in_turn"]

Message = Mapping[str, str]
Done = TypeVar("Done")
Sleep = Callable[[float], Awaitable[None]]

LONGEST_PAUSE = 60.0  # seconds between two tries, where the server names no time
LONGEST_WAIT = 300.0  # a server that asks us to wait longer is asked again by the next run
SHORTEST_KEY = 8  # "EMPTY", "none" and their like are words, not secrets


@dataclass(frozen=True)
class Endpoint:
    """A server, a model of it, and how patient we are. `sleep` is the clock that tests replace.

    `unspoken` is what this server has refused to understand (log-probs, for instance); it is not asked again.
    """

    base_url: str
    model: str
    key_variable: str = "OPENAI_API_KEY"
    concurrency: int = 8
    timeout: float = 60.0
    retries: int = 6
    sleep: Sleep = field(default=asyncio.sleep, repr=False, compare=False)
    unspoken: set[str] = field(default_factory=set, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.key_variable.isidentifier():  # said without repeating it: it may be the key itself
            raise InputError("--key-variable is the name of an environment variable that holds the key, not the key")
        scheme, _, rest = self.base_url.partition("://")
        if scheme not in ("http", "https") or not rest:
            raise InputError("a base URL must begin with http:// or https://, such as http://localhost:8000/v1")
        if "@" in rest.split("/")[0] or "?" in rest:
            raise InputError(f"the base URL holds more than an address; put the key into ${self.key_variable}")

    @property
    def address(self) -> str:
        return self.base_url.rstrip("/") + "/chat/completions"

    def client(self) -> httpx2.AsyncClient:
        """To be used as `async with endpoint.client() as client`, once for all requests."""
        import httpx2

        # `chat` keeps the time, for a whole request; a queue for connections would count against it
        secure = self.base_url.startswith("https")  # certificates take a third of a second to load
        return httpx2.AsyncClient(timeout=None, limits=httpx2.Limits(max_connections=None), verify=secure)

    async def chat(
        self,
        client: httpx2.AsyncClient,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        temperature: float,
        top_logprobs: int | None = None,
        seed: int | None = None,
        top_p: float | None = None,
    ) -> Reply:
        """One chat completion. Refused if no request can succeed, EndpointError after the last try of this one."""
        body: dict[str, Any] = {
            "model": self.model,
            "messages": list(messages),
            "max_tokens": max_tokens,
            "temperature": temperature,
        }
        if top_logprobs is not None:
            body |= {"logprobs": True, "top_logprobs": top_logprobs}
        if seed is not None:
            body["seed"] = seed
        if top_p is not None:
            body["top_p"] = top_p
        tries = 0
        while True:
            try:
                return await self._ask(client, self._spoken(body))
            except Later as later:
                if tries == self.retries:
                    raise Unanswered(
                        self._redacted(f"{self.base_url} gave no answer in {tries + 1} tries; the last: {later.reason}")
                    ) from None
                pause = _pause(tries) if later.wait is None else later.wait
            if pause > LONGEST_WAIT:
                raise Refused(f"{self.base_url} asks us to wait {pause:.0f} s; go on later")
            await self.sleep(pause)
            tries += 1

    async def reach(self) -> None:
        """EndpointError at once, and for nothing, if no server listens there."""
        import httpx2

        try:
            async with self.client() as client, asyncio.timeout(self.timeout):
                await client.get(self.base_url.rstrip("/") + "/models", headers=self._headers())
        except (TimeoutError, httpx2.TransportError) as error:
            reason = self._redacted(why_unreachable(error, self.timeout))
            raise EndpointError(f"{self.base_url} cannot be reached: {reason}; is the server running?") from None

    async def _ask(self, client: httpx2.AsyncClient, body: Mapping[str, Any]) -> Reply:
        """One try."""
        import httpx2

        try:
            async with asyncio.timeout(self.timeout):
                response = await client.post(self.address, json=body, headers=self._headers())
        except (TimeoutError, httpx2.TransportError) as error:
            raise Later(why_unreachable(error, self.timeout)) from None
        text = self._redacted(response.text)
        if response.status_code == 200:
            return read_reply(text)
        unspoken = unspoken_in(text, body) if response.status_code in (400, 422) else set()
        if unspoken:
            self.unspoken.update(unspoken)
            return await self._ask(client, self._spoken(body))
        raise refusal(response.status_code, response.headers.get("retry-after"), text, self)

    def _spoken(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The body without what the server does not understand."""
        spoken = dict(body)
        if "logprobs" in self.unspoken:
            spoken = {name: value for name, value in spoken.items() if "logprobs" not in name}
        if "max_tokens" in self.unspoken and "max_tokens" in spoken:
            spoken["max_completion_tokens"] = spoken.pop("max_tokens")
        return spoken

    def _key(self) -> str:
        return os.environ.get(self.key_variable, "").strip()

    def _headers(self) -> dict[str, str]:
        key = self._key()
        if not (key.isascii() and key.isprintable()):
            raise InputError(f"the key in ${self.key_variable} has characters that no key has; copy it again")
        return {"Authorization": f"Bearer {key}"} if key else {}

    def _redacted(self, text: str) -> str:
        key = self._key()
        return text.replace(key, "[key]") if len(key) >= SHORTEST_KEY else text


def _pause(tries: int) -> float:
    """1, 2, 4, ... seconds, less a random part of up to a half, so that requests do not come back all at once."""
    return min(2.0**tries, LONGEST_PAUSE) * random.uniform(0.5, 1.0)


async def in_turn(work: Iterable[Callable[[], Awaitable[Done]]], concurrency: int, done: Callable[[Done], Any]) -> None:
    """Do `work`, at most so many at a time; each result goes to `done` at once.

    After an error nothing new is begun, what is under way may finish (it is paid for), and the error is raised.
    """
    left = iter(work)
    errors: list[Exception] = []

    async def one_after_another() -> None:
        while not errors:
            start = next(left, None)
            if start is None:
                return
            try:
                done(await start())
            except Exception as error:
                errors.append(error)

    await asyncio.gather(*(one_after_another() for _ in range(max(1, concurrency))))
    if errors:
        raise errors[0]
