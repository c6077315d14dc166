"""One word, one token."""

from __future__ import annotations

import re

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from gapo.lab.skill import all_questions
from gapo.lab.world import CHOICES, PLACES, PROMPT_END, TONES, VAGUE, VAGUE_PLACE
from gapo.lab.writer import REMARKS

PAD, BOS, EOS, UNK = SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")


def vocabulary() -> list[str]:
    """The special tokens, then every word of the world in alphabetical order."""
    texts = ["describe a that looks", PROMPT_END, VAGUE_PLACE, *PLACES.values(), *VAGUE.values(), *REMARKS]
    texts += [word for words in (*CHOICES.values(), *TONES.values()) for word in words]
    texts += [text for question in all_questions() for text in (question.prompt, question.answer)]
    return [*SPECIAL, *sorted({word for text in texts for word in re.findall(r"\w+|[^\w\s]+", text)})]


def build_tokenizer() -> PreTrainedTokenizerFast:
    """`tokenizer(prompt)` starts with <bos>; a response is tokenised without special tokens and ends with <eos>.

    Words are cut at white space and prompts end in a punctuation mark, so the tokens of prompt and response side by
    side are the tokens of the joint text, with or without a space between the two.
    """
    ids = {word: i for i, word in enumerate(vocabulary())}
    tokenizer = Tokenizer(WordLevel(ids, unk_token=UNK))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(single=f"{BOS} $A", special_tokens=[(BOS, ids[BOS])])
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token=PAD,
        bos_token=BOS,
        eos_token=EOS,
        unk_token=UNK,
        padding_side="left",
        model_max_length=128,
        clean_up_tokenization_spaces=False,
    )
