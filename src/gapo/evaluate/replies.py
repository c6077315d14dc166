"""What a server sends back, read: a reply, a reason to ask again later, or a refusal in one sentence."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from gapo.errors import InputError

if TYPE_CHECKING:
    from gapo.evaluate.endpoint import Endpoint

ASK_AGAIN = (408, 409, 425, 429)  # and every 5xx
WORDS = 300  # characters of a server's message that we show


class EndpointError(InputError):
    """The server did not do what was asked; the message says which server, what it said, and what to do."""


class Refused(EndpointError):
    """The server would refuse every request like this one: wrong key, no such model, no money."""


class Unanswered(EndpointError):
    """No answer after the last try: the server is busy, broken or gone."""


class Later(Exception):
    """Worth another try, after `wait` seconds if the server named a time."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.reason, self.wait = reason, wait


@dataclass(frozen=True)
class Reply:
    """What came back. `logprobs` are those of the first token's alternatives, None where the server gave none."""

    text: str
    finish: str
    model: str
    logprobs: Mapping[str, float] | None
    prompt_tokens: int
    completion_tokens: int


def read_reply(text: str) -> Reply:
    """A chat completion; Later if it is none. No choice at all is an empty reply: it may well have been paid for."""
    try:
        data = json.loads(text)
    except ValueError:
        raise Later(f"its answer is not JSON: {one_line(text)}") from None
    choices = data.get("choices") if isinstance(data, dict) else None
    if not isinstance(choices, list):
        raise Later(f"its answer is no chat completion: {message_in(text)}")
    choice = choices[0] if choices and isinstance(choices[0], dict) else {}
    usage = data["usage"] if isinstance(data.get("usage"), dict) else {}
    return Reply(
        text=_content(choice),
        finish=str(choice.get("finish_reason") or ""),
        model=sound(str(data.get("model") or "")),
        logprobs=_first_logprobs(choice),
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
    )


def _content(choice: Mapping[str, Any]) -> str:
    message = choice.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list):  # some servers send parts
        content = "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return sound(content) if isinstance(content, str) else ""


def _first_logprobs(choice: Mapping[str, Any]) -> Mapping[str, float] | None:
    """Token to log-probability, of the alternatives to the first token."""
    try:
        first = choice["logprobs"]["content"][0]
        pairs = [(each["token"], each["logprob"]) for each in first["top_logprobs"] or [first]]
    except (KeyError, IndexError, TypeError):
        return None
    found: dict[str, float] = {}
    for token, logprob in pairs:
        if isinstance(token, str) and isinstance(logprob, int | float) and not math.isnan(logprob):
            found[token] = float(logprob)
    return found or None


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0


def unspoken_in(text: str, body: Mapping[str, Any]) -> set[str]:
    """What of the request the server says it does not understand and we can do without."""
    found = set()
    if "logprob" in text and "logprobs" in body:
        found.add("logprobs")
    if "max_completion_tokens" in text and "max_tokens" in body:
        found.add("max_tokens")
    return found


def refusal(status: int, retry_after: str | None, text: str, endpoint: Endpoint) -> Exception:
    """What to raise for a status that is no success."""
    said = f"status {status}: {message_in(text)}"
    server = endpoint.base_url
    if "insufficient_quota" in text:
        return Refused(f"{server} says the account has no money left ({said})")
    if status in ASK_AGAIN or status >= 500:
        return Later(said, seconds_to_wait(retry_after))
    if status in (401, 403):
        return Refused(f"{server} refuses the key ({said}); set ${endpoint.key_variable}")
    if status == 404:
        return Refused(
            f"{server} knows no {endpoint.model!r} or no such address ({said}); the base URL usually ends in /v1"
        )
    return EndpointError(f"{server} refuses the request ({said})")


def seconds_to_wait(retry_after: str | None, now: datetime | None = None) -> float | None:
    """Of the header Retry-After, which has seconds or a date; None where it is absent or neither."""
    if retry_after is None:
        return None
    try:
        seconds = float(retry_after)
        return max(0.0, seconds) if math.isfinite(seconds) else None
    except ValueError:
        pass
    try:
        then = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    return max(0.0, (then - (now or datetime.now(UTC))).total_seconds())


def message_in(text: str) -> str:
    """The message of an error in JSON, else the text, in one short line."""
    try:
        error = json.loads(text)["error"]
        return one_line(str(error["message"] if isinstance(error, dict) else error))
    except (ValueError, KeyError, TypeError):
        return one_line(text)


def sound(text: str) -> str:
    """Without half characters (lone surrogates): JSON can hold them, UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode()


def one_line(text: str) -> str:
    words = " ".join(text.split())
    return (words[:WORDS] + "...") if len(words) > WORDS else words or "nothing"


def why_unreachable(error: Exception, timeout: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout:g} s"
    return one_line(str(error)) if str(error) else type(error).__name__
