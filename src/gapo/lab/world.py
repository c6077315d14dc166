"""The miniature world: requests for a short description, and the true quality of a reply, computed.

A request names five things, one per slot: colour, creature, action, place and tone. A reply is a handful of words.
Everything that quality looks at is either a word of a slot or a repetition, so it says nothing about length: a reply
may add any number of neutral remarks without gaining or losing.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields

# Two words that stand side by side are neighbours: easily confused, so one in place of the other is half forgiven.
COLOURS = ("red", "pink", "blue", "green", "white", "silver", "yellow", "golden")
CREATURES = ("bird", "owl", "cat", "fox", "horse", "pony", "frog", "toad")
ACTIONS = ("sings", "hums", "sleeps", "dozes", "runs", "races", "dances", "plays")
PLACES = {
    "garden": "in the garden",
    "park": "in the park",
    "river": "by the river",
    "lake": "by the lake",
    "roof": "on the roof",
    "wall": "on the wall",
    "bridge": "under the bridge",
    "tree": "under the tree",
}
TONES = {
    "politely": ("kindly", "please", "respectfully", "gratefully"),
    "calmly": ("softly", "quietly", "peacefully", "restfully"),
    "cheerfully": ("hooray", "happily", "joyfully", "merrily"),
    "sadly": ("alas", "mournfully", "tearfully", "gloomily"),
}
VAGUE = {"colour": "plain", "creature": "animal", "action": "waits", "place": "place"}
VAGUE_PLACE = "around the place"

RIGHT, NEAR, UNCLEAR, WRONG = 1.0, 0.3, 0.1, 0.0  # what a word earns in its slot
REPETITION_COST = 0.05  # per repeated pair of words, as a share of the quality
PROMPT_END = ":"


@dataclass(frozen=True, slots=True)
class Request:
    """What a prompt asks for."""

    colour: str
    creature: str
    action: str
    place: str
    tone: str

    @property
    def prompt(self) -> str:
        place = PLACES[self.place]
        return f"describe a {self.colour} {self.creature} that {self.action} {place} {self.tone} {PROMPT_END}"


SLOTS = tuple(field.name for field in fields(Request))
CHOICES = dict(zip(SLOTS, (COLOURS, CREATURES, ACTIONS, tuple(PLACES), tuple(TONES)), strict=True))


def _neighbours() -> dict[str, str]:
    paired = [(words[i], words[i + 1]) for words in CHOICES.values() for i in range(0, len(words), 2)]
    return dict(paired) | {b: a for a, b in paired}


def _meanings() -> dict[str, tuple[str, str]]:
    plain = {word: (slot, word) for slot, words in CHOICES.items() for word in words}
    toned = {word: ("tone", tone) for tone, words in TONES.items() for word in words}
    return plain | toned | {word: (slot, word) for slot, word in VAGUE.items()}


NEIGHBOUR = _neighbours()
MEANING = _meanings()  # word -> (slot, what it says there)


def all_requests(seed: int) -> list[Request]:
    """Every request there is, in an order that the seed decides."""
    requests = [Request(*values) for values in itertools.product(*CHOICES.values())]
    random.Random(seed).shuffle(requests)
    return requests


def read_request(prompt: str) -> Request:
    """The request behind a prompt's text."""
    said = dict(MEANING[word] for word in prompt.split() if word in MEANING)
    return Request(**said)


def credit(asked: str, said: str) -> float:
    """What one mention earns in a slot: the word asked for, its neighbour, a vague word, or another one."""
    if said == asked:
        return RIGHT
    if said == NEIGHBOUR[asked]:
        return NEAR
    return UNCLEAR if said in VAGUE.values() else WRONG


def repetitions(words: Iterable[str]) -> int:
    """How many pairs of adjacent words were already there earlier in the reply."""
    pairs = list(itertools.pairwise(words))
    return len(pairs) - len(set(pairs))


def quality(prompt: str, reply: str) -> float:
    """The true quality in [0, 1]: (1 - cost of repetition) * mean over slots of the mean credit of their mentions.

    A slot nobody mentions earns nothing. A contradiction (red here, blue there) earns the mean of the two, so saying
    a thing twice neither helps nor hurts by itself.
    """
    words = reply.split()
    said: dict[str, list[str]] = {slot: [] for slot in SLOTS}
    for slot, value in (MEANING[word] for word in words if word in MEANING):
        said[slot].append(value)
    asked = dict(zip(SLOTS, astuple(read_request(prompt)), strict=True))
    earned = [sum(credit(asked[slot], v) for v in said[slot]) / max(1, len(said[slot])) for slot in SLOTS]
    return max(0.0, 1.0 - REPETITION_COST * repetitions(words)) * sum(earned) / len(SLOTS)
