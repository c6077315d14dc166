"""Pairs and a small model of our own making, as many and as equal on every machine as a measurement needs."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

PROMPT_WORDS, REPLY_WORDS = (8, 24), (18, 36)  # a reply has 40 tokens in the mean, 26 to 55 in nine of ten
WORDS = 6000
VOCABULARY = 4096
LEARNT_FROM = 4000  # pairs the tokenizer is trained on
_STARTS = [
    "b",
    "br",
    "c",
    "ch",
    "d",
    "dr",
    "f",
    "fl",
    "g",
    "gr",
    "h",
    "j",
    "k",
    "l",
    "m",
    "n",
    "p",
    "pr",
    "r",
    "s",
    "st",
]
_STARTS += ["t", "tr", "v", "w"]
_VOWELS = ["a", "e", "i", "o", "u", "ai", "ea", "oo"]
_ENDS = ["", "n", "r", "s", "t", "l", "m", "nd", "st"]


def words() -> list[str]:
    """Pronounceable words that mean nothing, the frequent ones first."""
    rng = random.Random(0)
    found: dict[str, None] = {}
    while len(found) < WORDS:
        syllables = 1 + (len(found) > 200) + (rng.random() < 0.3)
        parts = (rng.choice(_STARTS) + rng.choice(_VOWELS) + rng.choice(_ENDS) for _ in range(syllables))
        found["".join(parts)] = None
    return list(found)


def synthetic_rows(count: int, seed: int = 0) -> Iterator[dict[str, str]]:
    """Rows with a prompt and two replies; words follow Zipf's law, as words do."""
    rng = random.Random(seed)
    known = words()
    ranks = [1 / (rank + 3) for rank in range(len(known))]
    drawn: list[str] = []
    for _ in range(count):
        lengths = [rng.randint(*PROMPT_WORDS), rng.randint(*REPLY_WORDS), rng.randint(*REPLY_WORDS)]
        while len(drawn) < sum(lengths):
            drawn = rng.choices(known, ranks, k=100_000)
        texts = [" ".join(drawn.pop() for _ in range(length)) for length in lengths]
        yield {"prompt": texts[0] + "?", "chosen": " " + texts[1] + ".", "rejected": " " + texts[2] + "."}


def write_rows(path: Path, count: int, seed: int = 0) -> None:
    with path.open("w", encoding="utf-8") as file:
        for row in synthetic_rows(count, seed):
            file.write(json.dumps(row) + "\n")


def write_model(folder: Path) -> None:
    """A byte-level BPE tokenizer learnt from such pairs, and a random model of two layers."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<pad>", "<bos>", "<eos>"],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    texts = (text for row in synthetic_rows(LEARNT_FROM, seed=1) for text in row.values())
    tokenizer.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>"
    )
    fast.save_pretrained(folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=512,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
        )
        LlamaForCausalLM(config).save_pretrained(folder)
