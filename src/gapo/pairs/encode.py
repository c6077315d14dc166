"""A pair becomes token ids: the prompt with every header, and each response with its end-of-turn token."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from gapo.errors import InputError
from gapo.pairs.pair import BadRow, Message, PairSet, PreferencePair, Prompt
from gapo.pairs.patience import processor_time
from gapo.pairs.table import one_line

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TEMPLATES = ("auto", "chat", "none")
TOO_LONG = "prompt longer than the limit"
RENDERING = 10  # seconds of a processor for one conversation, which usually takes a ten-thousandth of one


@dataclass(frozen=True, slots=True)
class EncodedPair:
    """Token ids of one pair. Prompt ids are shared by both responses; response ids end with the end of the turn."""

    id: str
    prompt: list[int]
    chosen: list[int]
    rejected: list[int]
    flipped: bool | None = None


@dataclass(frozen=True)
class Encoder:
    """How text becomes ids for one tokenizer.

    template: `auto` uses the chat template for conversations and takes plain text as it is, `chat` also makes plain
    text one user turn, `none` never uses the template. A conversation without a template reads
    "\\n\\nHuman: ...\\n\\nAssistant:". A prompt longer than `max_prompt_length` is refused; a response is cut so that
    prompt and response have at most `max_length` tokens.
    """

    tokenizer: PreTrainedTokenizerBase
    max_length: int = 2048
    max_prompt_length: int | None = None
    template: str = "auto"

    def __post_init__(self) -> None:
        if self.template not in TEMPLATES:
            raise InputError(f"data.template must be one of {', '.join(TEMPLATES)}, not {self.template!r}")
        if self.prompt_limit < 1 or self.prompt_limit >= self.max_length:
            raise InputError(
                f"max_prompt_length {self.prompt_limit} leaves no room for a response in max_length {self.max_length}; "
                "lower max_prompt_length or raise max_length"
            )
        if self.tokenizer.eos_token_id is None:
            raise InputError(
                f"{self._named('tokenizer')} has no end-of-sequence token; set tokenizer.eos_token, or eos_token in "
                "tokenizer_config.json"
            )
        if self.template == "chat" and not self.tokenizer.chat_template:
            raise InputError("data.template is 'chat' but the tokenizer has no chat template; use 'auto' or 'none'")

    def _named(self, what: str) -> str:
        """The tokenizer, or a part of it, by where it was loaded from."""
        place = getattr(self.tokenizer, "name_or_path", "")
        return f"the {what} of {place}" if place else f"the {what}"

    @property
    def prompt_limit(self) -> int:
        return self.max_prompt_length if self.max_prompt_length is not None else self.max_length - 1

    def prompt_ids(self, prompt: Prompt) -> list[int]:
        """Ids up to the first token of the reply."""
        return self._prompt_ids([prompt])[0]

    def response_ids(self, prompt: Prompt, response: str) -> list[int]:
        """Ids of the reply and its end-of-turn token, not cut."""
        return self._response_ids([prompt], [[response]])[0][0]

    def encode(self, pair: PreferencePair) -> EncodedPair | BadRow:
        """The pair's ids, or why it cannot be used."""
        return self.encode_all([pair])[0]

    def encode_all(self, pairs: Sequence[PreferencePair]) -> list[EncodedPair | BadRow]:
        """Each pair's ids, or why it cannot be used; a pair's ids do not depend on the others'."""
        prompts = self._prompt_ids([pair.prompt for pair in pairs])
        responses = self._response_ids(
            [pair.prompt for pair in pairs], [(pair.chosen, pair.rejected) for pair in pairs]
        )
        return [self._cut(pair, ids, *both) for pair, ids, both in zip(pairs, prompts, responses, strict=True)]

    def _cut(
        self, pair: PreferencePair, prompt: list[int], chosen: list[int], rejected: list[int]
    ) -> EncodedPair | BadRow:
        if len(prompt) > self.prompt_limit:
            return BadRow(pair.source or pair.id, TOO_LONG, f"{len(prompt)} tokens, limit {self.prompt_limit}")
        room = self.max_length - len(prompt)
        chosen, rejected = chosen[:room], rejected[:room]
        if chosen == rejected:
            return BadRow(pair.source or pair.id, "chosen equals rejected", "after tokenization and truncation")
        return EncodedPair(pair.id, prompt, chosen, rejected, pair.flipped)

    def _prompt_ids(self, prompts: Sequence[Prompt]) -> list[list[int]]:
        conversations = [self._as_conversation(prompt) for prompt in prompts]
        texts = [
            (prompt if isinstance(prompt, str) else transcript(prompt)) if turns is None else self._opening(turns)
            for prompt, turns in zip(prompts, conversations, strict=True)
        ]
        plain = [turns is None for turns in conversations]
        found = self._ids(texts, plain)
        return [self._start(*each) for each in zip(found, texts, plain, strict=True)]

    def _start(self, ids: list[int], text: str, plain: bool) -> list[int]:
        """What a prompt begins and ends with, whatever template and tokenizer added."""
        if plain and ids[1:] and ids[-1] == self.tokenizer.eos_token_id and not text.endswith(self.tokenizer.eos_token):
            ids = ids[:-1]  # a tokenizer that closes every text: the reply is still to come
        bos = self.tokenizer.bos_token_id
        if bos is not None and ids[:2] == [bos, bos]:  # template and tokenizer both added one
            ids = ids[1:]
        if not ids:  # a model needs one token to predict the first reply token from
            ids = [bos if bos is not None else self.tokenizer.eos_token_id]
        return ids

    def _response_ids(self, prompts: Sequence[Prompt], responses: Sequence[Sequence[str]]) -> list[list[list[int]]]:
        """Ids of each prompt's replies."""
        texts: list[str] = []
        to_cut: list[bool] = []  # what a template wrote may go on after the end of the turn
        for prompt, replies in zip(prompts, responses, strict=True):
            conversation = self._as_conversation(prompt)
            opening = self._opening(conversation) if conversation is not None else ""
            first = len(texts)
            for reply in replies:
                text, by_template = self._reply_text(prompt, reply), False
                if conversation is not None:
                    whole = self._render((*conversation, Message("assistant", reply)), opening=False)
                    by_template = whole.startswith(opening)
                    # a template that rewrites earlier turns: say what was generated, no more
                    text = whole[len(opening) :] if by_template else reply
                texts.append(text)
                to_cut.append(by_template)
            if conversation is not None:
                self._need_replies(replies, texts[first:])
        found = iter(zip(self._ids(texts, [False] * len(texts)), to_cut, strict=True))
        eos = self.tokenizer.eos_token_id
        ended = (self._through_end_of_turn(ids) if cut else [*ids, eos] for ids, cut in found)
        return [[next(ended) for _ in replies] for replies in responses]

    def _need_replies(self, replies: Sequence[str], written: Sequence[str]) -> None:
        """A template that leaves replies out makes all of them the same."""
        same = len(set(written)) == 1 < len(set(replies))
        if same and not any(reply.strip() in written[0] for reply in replies):
            raise InputError(
                f"{self._named('chat template')} leaves the assistant's reply out; mend it, or use the template `none`"
            )

    def _as_conversation(self, prompt: Prompt) -> tuple[Message, ...] | None:
        """What the chat template should see, or None where the text is taken as it is."""
        if self.template == "none" or not self.tokenizer.chat_template:
            return None
        if isinstance(prompt, str):
            return (Message("user", prompt),) if self.template == "chat" else None
        return prompt

    def _reply_text(self, prompt: Prompt, response: str) -> str:
        # a transcript ends in "Assistant:", so the reply needs its space; plain text brings its own
        return response if isinstance(prompt, str) or response[:1].isspace() else f" {response}"

    def _render(self, turns: Iterable[Message], *, opening: bool) -> str:
        rows = [turn._asdict() for turn in turns]
        try:
            with processor_time(RENDERING):
                return str(self.tokenizer.apply_chat_template(rows, tokenize=False, add_generation_prompt=opening))
        except Exception as error:  # templates are programs of their own and raise what they like
            raise InputError(
                f"{self._named('chat template')} refuses a conversation ({one_line(error)}); mend it, or use the "
                "template `none`"
            ) from None

    def _opening(self, turns: Iterable[Message]) -> str:
        return self._render(turns, opening=True)

    def _ids(self, texts: Sequence[str], special: Sequence[bool]) -> list[list[int]]:
        """Ids of many texts at once, much quicker than one call a text; `special`: with start and end tokens."""
        found: list[list[int]] = [[] for _ in texts]
        for kind in set(special):
            places = [i for i, wanted in enumerate(special) if wanted == kind]
            some = [texts[i] for i in places]
            ids = self.tokenizer(some, add_special_tokens=kind, return_attention_mask=False)["input_ids"]
            for i, each in zip(places, ids, strict=True):
                found[i] = list(each)
        return found

    @cached_property
    def _ends(self) -> frozenset[int]:
        """Tokens that can end a turn."""
        marked = {i for i, token in self.tokenizer.added_tokens_decoder.items() if token.special}  # <|end|>, <|im_end|>
        no_end = {self.tokenizer.bos_token_id, self.tokenizer.unk_token_id, self.tokenizer.pad_token_id}
        return frozenset((marked | set(self.tokenizer.all_special_ids)) - no_end | {self.tokenizer.eos_token_id})

    def _through_end_of_turn(self, ids: list[int]) -> list[int]:
        """Cut what a template writes after the end of the turn (a newline, usually)."""
        last = next((i for i in range(len(ids) - 1, -1, -1) if ids[i] in self._ends), None)
        return [*ids, self.tokenizer.eos_token_id] if last is None else ids[: last + 1]


def transcript(turns: Iterable[Message]) -> str:
    """A conversation in Anthropic HH's form, open for the assistant's reply."""
    names = {"user": "Human", "assistant": "Assistant", "system": "System"}
    return "".join(f"\n\n{names.get(turn.role, turn.role)}: {turn.content}" for turn in turns) + "\n\nAssistant:"


def text_rows(tokenizer: PreTrainedTokenizerBase, pairs: Iterable[EncodedPair]) -> list[dict[str, str]]:
    """The pairs as the plain text of their token ids, for trainers that tokenise themselves."""
    read, start = tokenizer.decode, list(tokenizer("")["input_ids"][:1])
    return [
        {
            "prompt": str(
                read(pair.prompt[1:] if start and pair.prompt[:1] == start else pair.prompt)
            ),  # it comes back
            "chosen": str(read(pair.chosen)),
            "rejected": str(read(pair.rejected)),
        }
        for pair in pairs
    ]


def encode_pairs(pairs: PairSet, encoder: Encoder) -> tuple[list[EncodedPair], list[BadRow]]:
    """Every pair that can be encoded, and the ones that cannot."""
    results = encoder.encode_all(pairs)
    encoded = [result for result in results if isinstance(result, EncodedPair)]
    return encoded, [result for result in results if isinstance(result, BadRow)]
