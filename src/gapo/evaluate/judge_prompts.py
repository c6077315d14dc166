"""What a judge is asked: our own wording, or a file the user has, which may be an official one.

A template is chat messages with places for the question and the two answers in the order shown. Its version is a digest
of its text, so a changed word is another prompt. The official texts are not ours to ship; we know them by their digest.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gapo.errors import InputError
from gapo.evaluate.replies import sound
from gapo.pairs.yaml_text import NotYaml, read_yaml

QUESTION, FIRST, SECOND = "question", "first", "second"
# The names of these places in AlpacaEval's template, in Arena-Hard's of 2024 and of 2025, and in our own.
PLACES = {
    "question": QUESTION,
    "instruction": QUESTION,
    "question_1": QUESTION,
    "QUESTION": QUESTION,
    "first": FIRST,
    "output_1": FIRST,
    "answer_1": FIRST,
    "ANSWER_A": FIRST,
    "second": SECOND,
    "output_2": SECOND,
    "answer_2": SECOND,
    "ANSWER_B": SECOND,
}
PLACE = re.compile(r"\{(" + "|".join(PLACES) + r")\}")

ALPACA_OFFICIAL = "alpaca_eval_clf@official"
ARENA_OFFICIAL = "arena-hard-v0.1@official"
OFFICIAL = {
    "a9d1df00c19f8cba33fe6fcdcf7f003f4be5d7ac6b8409296856c3f3f7d9aff5": ALPACA_OFFICIAL,
    "6040fdd088ce3e785c0340d1a32410ed5f8a4acbf5e5db6ee01b28fec53158d8": ARENA_OFFICIAL,
}


@dataclass(frozen=True)
class Template:
    """Chat messages with places; `name` is name@version."""

    name: str
    messages: tuple[tuple[str, str], ...]

    def filled(self, question: str, first: str, second: str) -> list[dict[str, str]]:
        """All places at once: an answer that contains the name of a place stays as it is."""
        values = {QUESTION: question, FIRST: first, SECOND: second}
        return [
            {"role": role, "content": sound(PLACE.sub(lambda found: values[PLACES[found[1]]], text))}
            for role, text in self.messages
        ]


def template(name: str, messages: Sequence[tuple[str, str]]) -> Template:
    """Named by its digest; a digest we know is an official prompt, whatever its file is called."""
    digest = hashlib.sha256(json.dumps(list(messages), ensure_ascii=False).encode()).hexdigest()
    return Template(OFFICIAL.get(digest, f"{name}@{digest[:12]}"), tuple(messages))


def read_template(path: Path) -> Template:
    """A file of the user's: `<|im_start|>role` blocks (as AlpacaEval's), YAML with system_prompt and prompt_template
    (as Arena-Hard's), or plain text for one message."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the prompt file {path} cannot be read ({error}); check the path") from None
    if path.suffix in (".yaml", ".yml"):
        messages = _from_yaml(text, path)
    elif "<|im_start|>" in text:
        messages = [_from_block(block) for block in text.split("<|im_start|>")[1:]]
    else:
        messages = [("user", text.strip())]
    found = {PLACES[place] for _, each in messages for place in PLACE.findall(each)}
    missing = [each for each in (QUESTION, FIRST, SECOND) if each not in found]
    if missing:
        wanted = "{instruction}, {output_1} and {output_2}"
        raise InputError(f"the prompt file {path} has no place for the {' and the '.join(missing)}; write {wanted}")
    return template(path.stem, messages)


def _from_block(block: str) -> tuple[str, str]:
    role, _, content = block.partition("\n")
    return role.strip(), content.split("<|im_end|>")[0].strip()


def _from_yaml(text: str, path: Path) -> list[tuple[str, str]]:
    try:
        content: Any = read_yaml(text)
    except NotYaml as error:
        raise InputError(f"the prompt file {path} is not YAML ({error}); mend it") from None
    turns = content.get("prompt_template") if isinstance(content, Mapping) else None
    turns = [turns] if isinstance(turns, str) else turns
    if not isinstance(turns, list) or len(turns) != 1:
        raise InputError(f"the prompt file {path} must have a prompt_template of one turn")
    system = content.get("system_prompt")
    return [*([("system", str(system))] if system else []), ("user", str(turns[0]))]


ONE_TOKEN = template(
    "gapo-one-token",
    [
        (
            "system",
            "You compare answers of two language models. You are fair, and you look at what is said, not at the order "
            "in which the answers are shown.",
        ),
        (
            "user",
            "Two models, called m and M, were given the same instruction. Decide whose answer a careful person would "
            "rather have: think of whether it does what was asked, is correct, and is as long as it needs to be.\n\n"
            "=== Instruction ===\n{question}\n\n"
            "=== Answer of model m ===\n{first}\n\n"
            "=== Answer of model M ===\n{second}\n\n"
            "=== Your decision ===\n"
            "Write the name of the better model, m or M, as a single letter. Write nothing before it or after it.",
        ),
    ],
)

FIVE_STEPS = template(
    "gapo-five-steps",
    [
        (
            "system",
            "You compare the answers of two assistants, A and B, to the same request. Work out first how you would "
            "answer yourself. Then go through both answers and name what is wrong, missing, off the point or "
            "needlessly long in each. Neither the order nor the length of the answers is a merit.\n\n"
            "End with exactly one of these five labels:\n"
            "[[A>>B]] A is much better\n[[A>B]] A is a little better\n[[A=B]] they are about equal\n"
            "[[B>A]] B is a little better\n[[B>>A]] B is much better",
        ),
        (
            "user",
            "=== Request ===\n{question}\n\n=== Answer of A ===\n{first}\n\n=== Answer of B ===\n{second}\n\n"
            "=== Your comparison, and one label at the end ===",
        ),
    ],
)

WHICH_IS_BETTER = template(
    "gapo-pair",
    [
        (
            "system",
            "You compare the answers of two assistants, A and B, to the same request. Say in a few sentences which one "
            "does better what was asked, and why. Neither the order nor the length of the answers is a merit.\n\n"
            "End with exactly one of these labels: [[A]] if A is better, [[B]] if B is better, [[tie]] if neither is.",
        ),
        (
            "user",
            "=== Request ===\n{question}\n\n=== Answer of A ===\n{first}\n\n=== Answer of B ===\n{second}\n\n"
            "=== Your comparison, and one label at the end ===",
        ),
    ],
)
