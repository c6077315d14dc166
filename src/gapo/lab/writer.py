"""The careless writer whose replies the start model learns from: about half of what it says is what was asked."""

from __future__ import annotations

import random
from dataclasses import dataclass

from gapo.lab.world import NEIGHBOUR, PLACES, TONES, VAGUE, VAGUE_PLACE, Request

# Remarks that say nothing about any slot. No two share a pair of adjacent words, nor does the description itself.
REMARKS = (
    *("today", "again", "indeed", "now"),
    *("this morning", "as usual", "at noon", "once more"),
    *("under clear skies", "with great care", "for some time", "after light rain"),
    *("as you can see", "while nobody is watching", "before winter comes back", "because it feels right"),
)
SHORTEST, LONGEST = 8, 20  # words


@dataclass(frozen=True, slots=True)
class Carelessness:
    """How often the writer slips: `near`, `vague` and `wrong_tone` per mention, the others per reply."""

    near: float = 0.40
    vague: float = 0.25
    wrong_tone: float = 0.5
    repeats: float = 0.12
    echoes: float = 0.35
    two_tones: float = 0.35


USUAL = Carelessness()


def write_reply(request: Request, rng: random.Random, care: Carelessness = USUAL) -> str:
    """One reply. Its length is drawn first and filled up with remarks, so it carries no sign of quality."""
    length = rng.randint(SHORTEST, LONGEST)
    core = _description(request, rng, care)
    opening, closing = _tones(request, rng, care)
    room = length - len(core.split()) - len(opening) - len(closing)
    echo = _echo(request, rng, care) if rng.random() < care.echoes else ""
    if len(echo.split()) > room:
        echo = ""
    remarks = _remarks(room - len(echo.split()), rng, repeats=rng.random() < care.repeats)
    before = rng.randint(0, min(1, len(remarks)))
    after = [*remarks[before:], *([echo] if echo else [])]
    rng.shuffle(after)
    return " ".join([*opening, *remarks[:before], core, *after, *closing])


def _slip(slot: str, asked: str, rng: random.Random, care: Carelessness) -> str:
    chance = rng.random()
    if chance < care.near:
        return NEIGHBOUR[asked]
    return VAGUE[slot] if chance < care.near + care.vague else asked


def _description(request: Request, rng: random.Random, care: Carelessness) -> str:
    colour = _slip("colour", request.colour, rng, care)
    creature = _slip("creature", request.creature, rng, care)
    action = _slip("action", request.action, rng, care)
    place = PLACES.get(_slip("place", request.place, rng, care), VAGUE_PLACE)
    return f"a {colour} {creature} {action} {place}"


def _echo(request: Request, rng: random.Random, care: Carelessness) -> str:
    """A second mention of colour and creature, which may contradict the first."""
    creature, colour = _slip("creature", request.creature, rng, care), _slip("colour", request.colour, rng, care)
    return f"that {creature} looks {colour}"


def _tones(request: Request, rng: random.Random, care: Carelessness) -> tuple[list[str], list[str]]:
    """A word of tone at the start, at the end, or at both."""

    def word(half: slice) -> str:
        tone = NEIGHBOUR[request.tone] if rng.random() < care.wrong_tone else request.tone
        return rng.choice(TONES[tone][half])

    opening, closing = [word(slice(0, 2))], [word(slice(2, 4))]
    if rng.random() < care.two_tones:
        return opening, closing
    return (opening, []) if rng.random() < 0.5 else ([], closing)


def _remarks(room: int, rng: random.Random, *, repeats: bool) -> list[str]:
    """Remarks of `room` words together; a repetitive writer says the first few twice."""
    pool = rng.sample(REMARKS, len(REMARKS))
    if repeats:
        pool = [remark for remark in pool[:3] for _ in range(2)] + pool[3:]
    chosen = []
    for remark in pool:
        if len(remark.split()) <= room:
            chosen.append(remark)
            room -= len(remark.split())
    return chosen
