"""A judge's reply, read: how likely the answer shown first is the better one, or why that cannot be said."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping
from dataclasses import replace

from gapo.evaluate.endpoint import Reply
from gapo.evaluate.verdicts import EMPTY, MALFORMED, OK, TRUNCATED, Reading

LOG_PROBS, TEXT, SAME = "log-probs", "text", "same answers"
FIRST_TOKEN, SECOND_TOKEN = "m", "M"
SPACES = " \n\t▁Ġ"  # how tokenizers write the space before a word
ONE_LETTER = re.compile(r"\W*([mM])\W*")
FIVE_LABELS = re.compile(r"\[\[([AB<>=]+)\]\]")
THREE_LABELS = re.compile(r"\[\[(A|B|tie|C)\]\]", re.IGNORECASE)
THOUGHTS = re.compile(r"<think>.*?(</think>|$)", re.DOTALL)
# label: P(A is better), weight. A double arrow counts three times.
FIVE = {"A>>B": (1.0, 3), "A>B": (1.0, 1), "A=B": (0.5, 1), "B=A": (0.5, 1), "B>A": (0.0, 1), "B>>A": (0.0, 3)}
FIVE |= {"B<<A": FIVE["A>>B"], "B<A": FIVE["A>B"], "A<B": FIVE["B>A"], "A<<B": FIVE["B>>A"]}
THREE = {"A": (1.0, 1), "B": (0.0, 1), "TIE": (0.5, 1), "C": (0.5, 1)}


def shown_swapped(games: int, prompt: str, game: int) -> bool:
    """Whether the reference's answer is shown first.

    A single game has an order drawn from the instruction alone, the same for every model; it is AlpacaEval's own draw
    (its seed 0), which shows the reference first unless it says to switch. Of two games the first shows the reference
    first, as Arena-Hard does, the second the model.
    """
    if games == 1:
        switched: bool = random.Random(f"is_switched_outputs{prompt}0").choices([False, True])[0]
        return not switched
    return game % 2 == 0


def for_the_model(reading: Reading, swapped: bool) -> Reading:
    """From P(the first is better) to P(the model's answer is better)."""
    if reading.preference is None or not swapped:
        return reading
    return replace(reading, preference=1.0 - reading.preference)


def read_one_token(reply: Reply) -> Reading:
    """P(m) / (P(m) + P(M)) of the first token; without log-probs, the letter in the text is certain."""
    first = first_token_preference(reply.logprobs) if reply.logprobs else None
    if first is not None:
        return _read(reply, first, 1, LOG_PROBS)
    letter = ONE_LETTER.fullmatch(_said(reply))
    if letter:
        return _read(reply, float(letter[1] == FIRST_TOKEN), 1, TEXT)
    return _unreadable(reply)


def first_token_preference(logprobs: Mapping[str, float]) -> float | None:
    """The two tokens' share of m; a token that is not among the alternatives has probability 0."""
    first, second = (logprobs.get(token, -math.inf) for token in (FIRST_TOKEN, SECOND_TOKEN))
    if max(first, second) == -math.inf:  # tokenizers that keep a space before the letter
        bare = {token.strip(SPACES): value for token, value in sorted(logprobs.items(), key=lambda pair: pair[1])}
        first, second = (bare.get(token, -math.inf) for token in (FIRST_TOKEN, SECOND_TOKEN))
    highest = max(first, second)
    if highest == -math.inf:
        return None
    shares = math.exp(first - highest), math.exp(second - highest)
    return shares[0] / sum(shares)


def read_five_labels(reply: Reply) -> Reading:
    """[[A>>B]] and its like. Several different labels are none."""
    return _read_label(reply, FIVE_LABELS, FIVE)


def read_three_labels(reply: Reply) -> Reading:
    """[[A]], [[B]] or [[tie]]."""
    return _read_label(reply, THREE_LABELS, THREE)


def _read_label(reply: Reply, pattern: re.Pattern[str], values: Mapping[str, tuple[float, int]]) -> Reading:
    labels = {label.upper() for label in pattern.findall(_said(reply))}
    if len(labels) == 1 and (value := values.get(labels.pop())) is not None:
        return _read(reply, *value, TEXT)
    return _unreadable(reply)


def _said(reply: Reply) -> str:
    """Without the thoughts that some servers leave in the text: a label there is no verdict."""
    return THOUGHTS.sub("", reply.text).strip()


def _read(reply: Reply, preference: float, weight: int, by: str) -> Reading:
    return Reading(preference, OK, weight, reply.text, reply.model, by)


def _unreadable(reply: Reply) -> Reading:
    said = _said(reply)
    cut = reply.finish == "length" and len(said.split()) != 1  # one word, where one token was asked for, is not cut
    status = TRUNCATED if cut else MALFORMED if said else EMPTY
    return Reading(None, status, 1, reply.text, reply.model)
