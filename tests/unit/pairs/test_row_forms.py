"""Each form a row may have, and each reason why a row is no pair."""

from __future__ import annotations

from typing import Any

import pytest

from gapo.pairs.pair import BadRow, Message, PreferencePair
from gapo.pairs.rows import parse_row

USER = {"role": "user", "content": "Name a colour."}
SYSTEM = {"role": "system", "content": "Be brief."}
RED = {"role": "assistant", "content": "Red."}
MUD = {"role": "assistant", "content": "Mud."}
ASKED = (Message("user", "Name a colour."),)
TWO_TURNS = "\n\nHuman: Hi\n\nAssistant: Hello!\n\nHuman: Name a colour.\n\nAssistant:"
THREE_MESSAGES = (Message("user", "Hi"), Message("assistant", "Hello!"), Message("user", "Name a colour."))


def row(**columns: Any) -> dict[str, Any]:
    return columns


FORMS = {
    "TRL explicit": (
        row(prompt="The sky is", chosen=" blue.", rejected=" green."),
        ("The sky is", " blue.", " green."),
    ),
    "TRL conversational": (row(prompt=[USER], chosen=[RED], rejected=[MUD]), (ASKED, "Red.", "Mud.")),
    "messages, then text": (row(prompt=[USER], chosen="Red.", rejected="Mud."), (ASKED, "Red.", "Mud.")),
    "system message": (
        row(prompt=[SYSTEM, USER], chosen=[RED], rejected=[MUD]),
        ((Message("system", "Be brief."), *ASKED), "Red.", "Mud."),
    ),
    "conversation repeated in the responses": (
        row(prompt=[SYSTEM, USER], chosen=[USER, RED], rejected=[USER, MUD]),
        ((Message("system", "Be brief."), *ASKED), "Red.", "Mud."),
    ),
    "UltraFeedback": (
        row(prompt=USER["content"], chosen=[USER, RED], rejected=[USER, MUD], messages=[USER, RED], score_chosen=8.0),
        (ASKED, "Red.", "Mud."),
    ),
    "text prompt, message responses": (
        row(prompt="Name a colour.", chosen=[RED], rejected=[MUD]),
        (ASKED, "Red.", "Mud."),
    ),
    "implicit messages": (row(chosen=[USER, RED], rejected=[USER, MUD]), (ASKED, "Red.", "Mud.")),
    "implicit text": (
        row(chosen="The sky is blue.", rejected="The sky is black."),
        ("The sky is", " blue.", " black."),
    ),
    "implicit text after a line": (
        row(chosen="Colour?\nred", rejected="Colour?\nmud"),
        ("Colour?\n", "red", "mud"),
    ),
    "implicit text, one the start of the other": (
        row(chosen="Say hi there", rejected="Say hi there friend"),
        ("Say hi", " there", " there friend"),
    ),
    "implicit text, nothing left of one": (
        row(chosen="Say hi there x", rejected="Say hi there "),
        ("Say hi", " there x", " there "),
    ),
    "Anthropic HH transcripts": (
        row(chosen=f"{TWO_TURNS} Red.", rejected=f"{TWO_TURNS} Mud.\n"),
        (THREE_MESSAGES, "Red.", "Mud."),
    ),
    "Anthropic HH with a prompt": (
        row(prompt=TWO_TURNS, chosen=" Red.", rejected=" Mud.", subset="helpful"),
        (THREE_MESSAGES, "Red.", "Mud."),
    ),
    "Anthropic HH with words before the first turn": (
        row(prompt="Be brief.\n\nHuman: Name a colour.\n\nAssistant:", chosen="Red.", rejected="Mud."),
        ((Message("system", "Be brief."), *ASKED), "Red.", "Mud."),
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_known_form_becomes_a_pair(form: str) -> None:
    columns, expected = FORMS[form]
    pair = parse_row(columns, "f.jsonl:1")
    assert isinstance(pair, PreferencePair), pair
    assert (pair.prompt, pair.chosen, pair.rejected) == expected
    assert pair.source == "f.jsonl:1"


NO_PAIRS = {
    "no chosen": (row(prompt="p", rejected="b"), "missing key", "key 'chosen'"),
    "no rejected": (row(prompt="p", chosen="a"), "missing key", "key 'rejected'"),
    "no content": (
        row(prompt=[{"role": "user"}], chosen="a", rejected="b"),
        "missing key",
        "key 'content' in a message of key 'prompt'",
    ),
    "blank response": (row(prompt="p", chosen="a", rejected=" \n"), "empty response", "key 'rejected'"),
    "no messages": (row(prompt=[USER], chosen=[], rejected=[MUD]), "empty response", "key 'chosen'"),
    "blank transcript": (row(chosen=TWO_TURNS, rejected=f"{TWO_TURNS} b"), "empty response", "key 'chosen'"),
    "same text": (row(prompt="p", chosen="a", rejected="a"), "chosen equals rejected", "keys 'chosen' and 'rejected'"),
    "same messages": (
        row(chosen=[USER, RED], rejected=[USER, RED]),
        "chosen equals rejected",
        "keys 'chosen' and 'rejected'",
    ),
    "same implicit text": (row(chosen="a b", rejected="a b"), "chosen equals rejected", "keys 'chosen' and 'rejected'"),
    "number": (row(prompt="p", chosen=3, rejected="b"), "wrong type", "key 'chosen' is a number, not text"),
    "null": (row(prompt=None, chosen="a", rejected="b"), "wrong type", "key 'prompt' is null, not text"),
    "list of texts": (
        row(prompt="p", chosen=["a"], rejected=["b"]),
        "wrong type",
        "key 'chosen' holds text where a message is needed",
    ),
    "text and messages": (
        row(prompt="p", chosen="a", rejected=[MUD]),
        "wrong type",
        "one of 'chosen' and 'rejected' is text, the other is messages",
    ),
    "not an object": (["p", "a", "b"], "wrong type", "the row is a list, not an object with keys"),
    "flipped": (
        row(prompt="p", chosen="a", rejected="b", flipped="maybe"),
        "wrong type",
        "key 'flipped' is text, not true or false",
    ),
    "subset": (
        row(prompt="p", chosen="a", rejected="b", subset=1.5),
        "wrong type",
        "key 'subset' is a number, not text",
    ),
    "lone surrogate": (row(prompt="p", chosen="\ud800", rejected="b"), "not UTF-8", "key 'chosen'"),
    "role": (
        row(prompt=[{"role": "bot", "content": "x"}], chosen="a", rejected="b"),
        "unknown role",
        "role 'bot' in key 'prompt', known: system, user, assistant",
    ),
    "assistant last": (
        row(prompt=[USER, RED], chosen="a", rejected="b"),
        "prompt ends with the assistant",
        "key 'prompt'",
    ),
    "empty prompt": (row(prompt="", chosen="a", rejected="b"), "empty prompt", "key 'prompt'"),
    "empty conversation": (row(prompt=[], chosen="a", rejected="b"), "empty prompt", "key 'prompt'"),
    "nothing shared": (
        row(chosen="yes it is", rejected="no it is not"),
        "empty prompt",
        "no key 'prompt', and 'chosen' and 'rejected' share no first words",
    ),
    "other transcripts": (
        row(chosen="\n\nHuman: a\n\nAssistant: b", rejected="\n\nHuman: c\n\nAssistant: d"),
        "chosen and rejected answer different prompts",
        "the texts differ before the last 'Assistant:'",
    ),
    "other conversation": (
        row(prompt=[SYSTEM], chosen=[USER, RED], rejected=[USER, MUD]),
        "chosen and rejected answer different prompts",
        "the responses repeat another conversation than key 'prompt'",
    ),
    "user answers": (
        row(prompt=[USER], chosen=[USER], rejected=[MUD]),
        "response is not one assistant turn",
        "key 'chosen' ends with user",
    ),
    "several turns": (
        row(chosen=[USER, RED], rejected=[USER, MUD, USER, RED]),
        "response is not one assistant turn",
        "key 'rejected' ends with assistant, user, assistant",
    ),
}


@pytest.mark.parametrize("case", NO_PAIRS)
def test_a_row_that_is_no_pair_says_where_and_why(case: str) -> None:
    columns, reason, detail = NO_PAIRS[case]
    assert parse_row(columns, "f.jsonl:17") == BadRow("f.jsonl:17", reason, detail)


@pytest.mark.parametrize(
    ("written", "meant"),
    [(True, True), (False, False), (None, None), ("True", True), ("false", False), ("", None), (1, True), ("0", False)],
)
def test_flipped_is_read_however_it_is_written(written: object, meant: bool | None) -> None:
    pair = parse_row(row(prompt="p", chosen="a", rejected="b", flipped=written), "")
    assert isinstance(pair, PreferencePair)
    assert pair.flipped is meant


def test_optional_columns_are_honoured_and_others_ignored() -> None:
    pair = parse_row(row(prompt="p", chosen="a", rejected="b", id=7, subset="s", votes={"x": 1}), "")
    assert isinstance(pair, PreferencePair)
    assert (pair.id, pair.subset, pair.flipped) == ("7", "s", None)


def test_a_prompt_that_only_mentions_the_assistant_stays_text() -> None:
    pair = parse_row(row(prompt="Who are you?\n\nAssistant:", chosen="a", rejected="b"), "")
    assert isinstance(pair, PreferencePair)
    assert pair.prompt == "Who are you?\n\nAssistant:"
