"""A command as it may be written down: without keys, tokens and passwords, whoever put them on the line."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)  # in the name of a variable
SHAPES = re.compile(r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[\w-]{16,}|gh[a-z]_[A-Za-z0-9]{16,}|glpat-[\w-]{16,})")
IN_ADDRESS = re.compile(r"(?<=://)[^/@\s]+@")  # user:password@
SHORTEST = 8  # "none", "EMPTY" and their like are words, not secrets
HIDDEN = "[secret]"


def without_secrets(words: Iterable[str], environment: Mapping[str, str] = os.environ) -> list[str]:
    """The words, with what this environment keeps in secret variables, or what looks like a key, taken out."""
    held = sorted(
        (value for name, value in environment.items() if SECRET.search(name) and len(value) >= SHORTEST), key=len
    )
    return [_hidden(str(word), held[::-1]) for word in words]


def _hidden(word: str, held: list[str]) -> str:
    for value in held:  # the longest first: one may hold another
        word = word.replace(value, HIDDEN)
    return IN_ADDRESS.sub(f"{HIDDEN}@", SHAPES.sub(HIDDEN, word))
