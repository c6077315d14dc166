"""One row of any known form becomes one pair, or the reason why not.

The form shows in the columns of the row itself, so one file may mix them:

    prompt     chosen, rejected    form
    text       text                TRL explicit, or Anthropic HH where the prompt ends with "\\n\\nAssistant:"
    messages   messages or text    TRL conversational
    text       messages            UltraFeedback: both responses repeat the user's turn
    (none)     text                TRL implicit, or Anthropic HH transcripts
    (none)     messages            TRL implicit: the leading messages both share are the prompt

`id`, `flipped` and `subset` are read where present; any other column is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gapo.pairs.pair import BadRow, Message, PreferencePair, Prompt

NEEDED_COLUMNS = ("chosen", "rejected")
COLUMNS = ("id", "prompt", *NEEDED_COLUMNS, "flipped", "subset")
ROLES = ("system", "user", "assistant")

MISSING_KEY = "missing key"
WRONG_TYPE = "wrong type"
NOT_UTF8 = "not UTF-8"
UNKNOWN_ROLE = "unknown role"
EMPTY_PROMPT = "empty prompt"
EMPTY_RESPONSE = "empty response"
SAME_RESPONSES = "chosen equals rejected"
DIFFERENT_PROMPTS = "chosen and rejected answer different prompts"
NOT_ONE_ANSWER = "response is not one assistant turn"
ASSISTANT_LAST = "prompt ends with the assistant"

_HH_ANSWER = "\n\nAssistant:"
_HH_TURN = re.compile(r"(?:\A|\n\n)(Human|Assistant):")
_HH_ROLES = {"Human": "user", "Assistant": "assistant"}
_FLAGS = {"": None, "true": True, "1": True, "false": False, "0": False}  # how CSV files write them

_Turns = tuple[Message, ...]


class _Content(NamedTuple):
    prompt: Prompt
    chosen: str
    rejected: str


class _RowError(Exception):
    """Carries the reason from the check that failed up to `parse_row`; never leaves this file."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason)
        self.reason, self.detail = reason, detail


def parse_row(row: object, source: str) -> PreferencePair | BadRow:
    """The pair in this row; `source` (file:row) goes with it either way, so that a person can look the row up."""
    try:
        if not isinstance(row, Mapping):
            raise _RowError(WRONG_TYPE, f"the row is {_kind(row)}, not an object with keys")
        content = _checked(_content(row))
        subset = _label(row, "subset")
        return PreferencePair(*content, flipped=_flag(row), subset=subset, source=source, id=_label(row, "id") or "")
    except _RowError as bad:
        return BadRow(source, bad.reason, bad.detail)


def _content(row: Mapping[str, object]) -> _Content:
    chosen, rejected = _text_or_turns(row, "chosen"), _text_or_turns(row, "rejected")
    prompt = _text_or_turns(row, "prompt") if "prompt" in row else None
    if isinstance(chosen, str) and isinstance(rejected, str):
        if prompt is None:
            return _split_texts(chosen, rejected)
        if isinstance(prompt, str) and _is_hh_prompt(prompt):
            return _Content(_hh_prompt(prompt), chosen.strip(), rejected.strip())
        return _Content(prompt, chosen, rejected)
    if isinstance(chosen, tuple) and isinstance(rejected, tuple):
        return _split_turns(prompt, chosen, rejected)
    raise _RowError(WRONG_TYPE, "one of 'chosen' and 'rejected' is text, the other is messages")


def _checked(content: _Content) -> _Content:
    prompt, chosen, rejected = content
    _need_responses(chosen, rejected)
    said = prompt if isinstance(prompt, str) else "".join(turn.content for turn in prompt)
    if not said.strip():
        raise _RowError(EMPTY_PROMPT, "key 'prompt'")
    if not isinstance(prompt, str) and prompt[-1].role == "assistant":
        raise _RowError(ASSISTANT_LAST, "key 'prompt'")
    return content


def _need_responses(chosen: str, rejected: str) -> None:
    for key, response in (("chosen", chosen), ("rejected", rejected)):
        if not response.strip():
            raise _RowError(EMPTY_RESPONSE, f"key {key!r}")
    if chosen == rejected:
        raise _RowError(SAME_RESPONSES, "keys 'chosen' and 'rejected'")


def _split_texts(chosen: str, rejected: str) -> _Content:
    """Two full texts: prompt and response still to be parted."""
    _need_responses(chosen, rejected)
    if _HH_ANSWER in chosen and _HH_ANSWER in rejected:
        return _split_transcripts(chosen, rejected)
    shared = _shared_length(chosen, rejected)
    # The prompt ends where a word ends, and leaves something to say on both sides.
    for cut in range(shared, 0, -1):
        if chosen[cut - 1].isspace() and chosen[cut:].strip() and rejected[cut:].strip():
            end = cut - (chosen[cut - 1] == " ")  # as in TRL: tokenizers join a space to the word that follows it
            return _Content(chosen[:end], chosen[end:], rejected[end:])
    raise _RowError(EMPTY_PROMPT, "no key 'prompt', and 'chosen' and 'rejected' share no first words")


def _split_transcripts(chosen: str, rejected: str) -> _Content:
    before, _, good = chosen.rpartition(_HH_ANSWER)
    before_rejected, _, bad = rejected.rpartition(_HH_ANSWER)
    if before != before_rejected:
        raise _RowError(DIFFERENT_PROMPTS, "the texts differ before the last 'Assistant:'")
    return _Content(_hh_prompt(before + _HH_ANSWER), good.strip(), bad.strip())


def _is_hh_prompt(prompt: str) -> bool:
    return prompt.rstrip().endswith(_HH_ANSWER) and "Human" in _HH_TURN.findall(prompt)


def _hh_prompt(transcript: str) -> _Turns:
    """The turns before the open 'Assistant:' at the end; words before the first turn are the system's."""
    opening, *parts = _HH_TURN.split(transcript)
    turns = [Message(_HH_ROLES[who], said.strip()) for who, said in zip(parts[::2], parts[1::2], strict=True)]
    system = [Message("system", opening.strip())] if opening.strip() else []
    return (*system, *turns[:-1])


def _shared_length(first: Sequence[object], second: Sequence[object]) -> int:
    pairs = zip(first, second, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))


def _split_turns(prompt: Prompt | None, chosen: _Turns, rejected: _Turns) -> _Content:
    """Responses as messages, which may repeat the conversation before them."""
    if not chosen or not rejected:
        raise _RowError(EMPTY_RESPONSE, f"key {'rejected' if chosen else 'chosen'!r}")
    shared = min(_shared_length(chosen, rejected), len(chosen) - 1, len(rejected) - 1)
    repeated = chosen[:shared]
    if isinstance(prompt, tuple):
        if repeated[: len(prompt)] == prompt:
            prompt = repeated
        elif repeated != prompt[len(prompt) - len(repeated) :]:  # the system's turn is often not repeated
            raise _RowError(DIFFERENT_PROMPTS, "the responses repeat another conversation than key 'prompt'")
    elif repeated or prompt is None:
        prompt = repeated
    else:
        prompt = (Message("user", prompt),)
    return _Content(prompt, _answer(chosen[shared:], "chosen"), _answer(rejected[shared:], "rejected"))


def _answer(turns: _Turns, key: str) -> str:
    if len(turns) != 1 or turns[0].role != "assistant":
        raise _RowError(NOT_ONE_ANSWER, f"key {key!r} ends with {', '.join(turn.role for turn in turns)}")
    return turns[0].content


def _text_or_turns(row: Mapping[str, object], key: str) -> str | _Turns:
    if key not in row:
        raise _RowError(MISSING_KEY, f"key {key!r}")
    value = row[key]
    if isinstance(value, list | tuple):
        return tuple(_message(turn, key) for turn in value)
    return _text(value, f"key {key!r}")


def _message(turn: object, key: str) -> Message:
    if not isinstance(turn, Mapping):
        raise _RowError(WRONG_TYPE, f"key {key!r} holds {_kind(turn)} where a message is needed")
    for part in ("role", "content"):
        if part not in turn:
            raise _RowError(MISSING_KEY, f"key {part!r} in a message of key {key!r}")
    role, content = (_text(turn[part], f"key {part!r} in a message of key {key!r}") for part in ("role", "content"))
    if role not in ROLES:
        raise _RowError(UNKNOWN_ROLE, f"role {role!r} in key {key!r}, known: {', '.join(ROLES)}")
    return Message(role, content)


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise _RowError(WRONG_TYPE, f"{where} is {_kind(value)}, not text")
    try:
        value.encode()  # a lone surrogate, from a broken byte or a broken \ud800 escape, stops every tokenizer later
    except UnicodeEncodeError:
        raise _RowError(NOT_UTF8, where) from None
    return value


def _label(row: Mapping[str, object], key: str) -> str | None:
    value = row.get(key)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return None if value is None else _text(value, f"key {key!r}") or None


def _flag(row: Mapping[str, object]) -> bool | None:
    value = row.get("flipped")
    written = "" if value is None else str(value).strip().lower()
    if written not in _FLAGS:
        raise _RowError(WRONG_TYPE, f"key 'flipped' is {_kind(value)}, not true or false")
    return _FLAGS[written]


def _kind(value: object) -> str:
    if value is None:
        return "null"
    names = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list", dict: "an object"}
    return names.get(type(value), type(value).__name__)
