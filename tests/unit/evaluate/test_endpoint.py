"""One request to a server that misbehaves on purpose, and many requests at a time."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from functools import partial

import pytest

from gapo.errors import InputError
from gapo.evaluate.endpoint import Endpoint, EndpointError, Refused, in_turn
from gapo.evaluate.replies import seconds_to_wait
from loopback import Says, Server, completion, in_order

KEY = "sk-test-never-to-be-seen-8f1c"


class Clock:
    """Sleeps for nothing and remembers for how long."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def ask(server: Server, clock: Clock | None = None, *, top_logprobs=None, **options):
    endpoint = Endpoint(server.url, "judge-1", sleep=clock or Clock(), **options)

    async def once():
        async with endpoint.client() as client:
            messages = [{"role": "user", "content": "which?"}]
            return await endpoint.chat(client, messages, max_tokens=3, temperature=0.5, top_logprobs=top_logprobs)

    return asyncio.run(once())


def test_a_reply_is_read_whole():
    with Server(in_order(Says(completion("M", finish="length", logprobs={"M": -0.1, "m": -2.5})))) as server:
        reply = ask(server, top_logprobs=5)
    assert (reply.text, reply.finish, reply.model) == ("M", "length", "judge-1")
    assert reply.logprobs == {"M": -0.1, "m": -2.5}
    assert (reply.prompt_tokens, reply.completion_tokens) == (7, 1)
    sent = server.asked[0]
    assert (sent["model"], sent["max_tokens"], sent["temperature"]) == ("judge-1", 3, 0.5)
    assert (sent["logprobs"], sent["top_logprobs"]) == (True, 5)
    assert server.keys == [f"Bearer {KEY}"]


def test_without_a_key_nothing_is_sent_in_its_place(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    with Server(in_order(Says())) as server:
        ask(server)
    assert server.keys == [None]


@pytest.mark.parametrize(
    "trouble",
    [
        Says({"error": {"message": "slow down"}}, 429),
        Says({"error": "oh"}, 500),
        Says("<html>bad gateway</html>", 502),
        Says({"error": {"message": "overloaded"}}, 503),
        Says("this is { not JSON"),
        Says([]),
        Says({"error": {"message": "upstream failed", "code": 502}}),  # with status 200, as some routers do
        Says(cut="at once"),
        Says(cut="half way"),
    ],
    ids=["429", "500", "502", "503", "not JSON", "a list", "error with 200", "cut at once", "cut half way"],
)
def test_trouble_is_met_with_patience_that_grows(trouble):
    clock = Clock()
    with Server(in_order(trouble, trouble, trouble, Says(completion("yes")))) as server:
        assert ask(server, clock).text == "yes"
    assert len(server.asked) == 4
    for tries, slept in enumerate(clock.slept):
        assert 0.5 * 2**tries <= slept <= 2**tries


def test_a_slow_server_is_left_and_asked_again():
    with Server(in_order(Says(wait=2.0), Says(completion("yes")))) as server:
        begun = time.monotonic()
        assert ask(server, timeout=0.3).text == "yes"
    assert time.monotonic() - begun < 1.9


def test_retry_after_is_honoured_to_the_second():
    clock = Clock()
    with Server(in_order(Says({}, 429, {"Retry-After": "17"}), Says({}, 503, {"Retry-After": "0"}), Says())) as server:
        ask(server, clock)
    assert clock.slept == [17.0, 0.0]


def test_a_server_that_wants_an_hour_is_left():
    with (
        Server(in_order(Says({}, 429, {"Retry-After": "3600"}))) as server,
        pytest.raises(Refused, match="wait 3600 s"),
    ):
        ask(server)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("5", 5.0),
        ("0.25", 0.25),
        ("-3", 0.0),
        ("nan", None),
        ("soon", None),
        ("Mon, 05 Jan 2026 10:00:30 GMT", 30.0),
        ("Mon, 05 Jan 2026 09:00:00 GMT", 0.0),
    ],
)
def test_retry_after_has_seconds_or_a_date(header, seconds):
    assert seconds_to_wait(header, datetime(2026, 1, 5, 10, 0, 0, tzinfo=UTC)) == seconds


def test_after_the_last_try_one_sentence_says_what_happened():
    words = "gave no answer in 3 tries; the last: status 503: overloaded"
    overloaded = Says({"error": {"message": "overloaded"}}, 503)
    with Server(in_order(overloaded)) as server, pytest.raises(EndpointError, match=words):
        ask(server, retries=2)
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("status", "message", "words"),
    [
        (401, "Incorrect API key", r"refuses the key .*set \$OPENAI_API_KEY"),
        (404, "no such model", r"knows no 'judge-1'.*ends in /v1"),
        (429, "You exceeded your quota: insufficient_quota", "no money left"),
    ],
)
def test_what_cannot_succeed_is_asked_once(status, message, words):
    no = Says({"error": {"message": message}}, status)
    with Server(in_order(no)) as server, pytest.raises(Refused, match=words):
        ask(server)
    assert len(server.asked) == 1


def test_a_request_that_is_wrong_in_itself_is_not_the_server_gone():
    too_long = Says({"error": {"message": "context length exceeded"}}, 400)
    with Server(in_order(too_long)) as server, pytest.raises(EndpointError, match="context length exceeded") as error:
        ask(server)
    assert not isinstance(error.value, Refused)
    assert len(server.asked) == 1


def test_what_a_server_does_not_understand_is_left_out_from_then_on():
    def picky(body, number):
        if "logprobs" in body:
            return Says({"error": {"message": "logprobs are not supported by this model"}}, 400)
        if "max_tokens" in body:
            return Says({"error": {"message": "use 'max_completion_tokens' instead"}}, 400)
        return Says(completion("m"))

    with Server(picky) as server:
        endpoint = Endpoint(server.url, "judge-1", sleep=Clock())

        async def twice():
            async with endpoint.client() as client:
                for _ in range(2):
                    reply = await endpoint.chat(client, [], max_tokens=3, temperature=0.0, top_logprobs=5)
                return reply

        assert asyncio.run(twice()).logprobs is None
    assert len(server.asked) == 4  # two to find out, then one a reply
    assert server.asked[-1]["max_completion_tokens"] == 3
    assert not {"logprobs", "top_logprobs", "max_tokens"} & set(server.asked[-1])


@pytest.mark.parametrize("body", [{"choices": []}, {"choices": [{"message": {"content": None}}]}, {"choices": [None]}])
def test_no_choice_is_an_empty_reply(body):
    with Server(in_order(Says(body))) as server:
        assert ask(server).text == ""
    assert len(server.asked) == 1  # it may have been paid for


@pytest.mark.parametrize(
    "logprobs", [None, {}, {"content": []}, {"content": [{}]}, {"content": [{"top_logprobs": [{"token": "m"}]}]}, "no"]
)
def test_log_probs_that_are_not_there_are_none(logprobs):
    body = completion("m")
    body["choices"][0]["logprobs"] = logprobs
    with Server(in_order(Says(body))) as server:
        assert ask(server).logprobs is None


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x/v1", "https://", f"https://me:{KEY}@host/v1"])
def test_an_address_is_only_an_address(url):
    with pytest.raises(InputError) as error:
        Endpoint(url, "judge-1")
    assert KEY not in str(error.value)


def test_the_key_is_in_no_object_and_no_error():
    echo = Says({"error": {"message": f"you sent Bearer {KEY}"}}, 500)
    with Server(in_order(echo)) as server:
        endpoint = Endpoint(server.url, "judge-1")
        with pytest.raises(EndpointError) as error:
            ask(server, retries=1)
    assert "you sent Bearer [key]" in str(error.value)
    assert KEY not in str(error.value)
    assert KEY not in repr(endpoint) + repr(vars(endpoint))


def test_a_reply_that_repeats_the_key_does_not():
    with Server(in_order(Says(completion(f"your key is {KEY}", model=KEY)))) as server:
        reply = ask(server)
    assert reply.text == "your key is [key]"
    assert KEY not in repr(reply)


def test_a_key_that_cannot_be_one_is_not_shown(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY + "ключ")
    with Server(in_order(Says())) as server, pytest.raises(InputError, match="characters that no key has") as error:
        ask(server)
    assert KEY not in str(error.value)


def test_nobody_listening_is_found_out_at_once():
    with Server(in_order(Says())) as server:
        asyncio.run(Endpoint(server.url, "judge-1").reach())
        assert not server.asked  # for nothing
    with pytest.raises(EndpointError, match="cannot be reached"):
        asyncio.run(Endpoint(server.url, "judge-1").reach())


def test_in_turn_is_bounded_and_loses_nothing():
    with Server(lambda body, number: Says(completion("m"), wait=0.02)) as server:
        endpoint = Endpoint(server.url, "judge-1")
        done: list[str] = []

        async def all_of_them():
            async with endpoint.client() as client:
                ask_one = partial(endpoint.chat, client, [], max_tokens=1, temperature=0.0)
                await in_turn([ask_one] * 12, 3, lambda reply: done.append(reply.text))

        asyncio.run(all_of_them())
    assert done == ["m"] * 12
    assert server.most_at_once == 3


def test_after_an_error_what_is_under_way_is_handed_over_and_nothing_new_begun():
    begun, done = [], []

    async def work(number: int) -> int:
        begun.append(number)
        await asyncio.sleep(0.01 * number)
        if number == 1:
            raise EndpointError("gone")
        return number

    with pytest.raises(EndpointError, match="gone"):
        asyncio.run(in_turn((partial(work, number) for number in range(10)), 4, done.append))
    assert set(done) >= {0, 2, 3}
    assert len(begun) < 7
    assert set(done) | {1} == set(begun)
