"""Public preference sets: how many pairs they have, their columns, and how long their pairs are taken to be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gapo.errors import InputError
from gapo.pairs.encode import Encoder, encode_pairs
from gapo.pairs.formats import load_pairs
from gapo.pairs.rows import NEEDED_COLUMNS
from gapo.runs.lengths import Lengths, lengths_of

CHARACTERS_A_TOKEN = 4  # English text in today's vocabularies; assumed where no tokenizer is at hand
SAMPLE = 1000  # pairs that lengths are taken from
ASSUMED = Lengths(200, 400, 400)  # UltraFeedback's prompts, replies of an instructed model; assumed


@dataclass(frozen=True)
class KnownPairs:
    """A set on the Hub as its data card has it."""

    pairs: int
    columns: tuple[str, ...]
    lengths: Lengths = ASSUMED


_PRINCETON = ("prompt_id", "prompt", "all_generated_responses", "scores", "chosen", "rejected")
_MISTRAL = ("prompt_id", "prompt", "chosen", "rejected", "all_generated_responses", "all_rm_scores")
_BINARIZED = ("prompt", "prompt_id", "chosen", "rejected", "messages", "score_chosen", "score_rejected")
# 5,535 pairs of it have 635, 314 and 304 characters on average
_HH = Lengths(159, 78, 76)
_SHORT, _JUDGED = Lengths(43, 16, 16), Lengths(64, 92, 92)  # in SmolLM2's tokens

KNOWN_PAIRS = {
    "princeton-nlp/mistral-instruct-ultrafeedback:train": KnownPairs(59_720, _MISTRAL),  # Snorkel's three rounds
    "princeton-nlp/mistral-instruct-ultrafeedback:test": KnownPairs(2_994, _MISTRAL),
    "HuggingFaceH4/ultrafeedback_binarized:train_prefs": KnownPairs(61_135, _BINARIZED),
    "HuggingFaceH4/ultrafeedback_binarized:test_prefs": KnownPairs(2_000, _BINARIZED),
    "princeton-nlp/llama3-ultrafeedback:train": KnownPairs(59_876, _PRINCETON),
    "princeton-nlp/llama3-ultrafeedback:test": KnownPairs(1_961, _PRINCETON),
    "princeton-nlp/gemma2-ultrafeedback-armorm:train": KnownPairs(59_600, _PRINCETON),  # the card says 59.6k
    "princeton-nlp/gemma2-ultrafeedback-armorm:test": KnownPairs(1_940, _PRINCETON),  # and 1.94k
    "Anthropic/hh-rlhf:train": KnownPairs(160_800, ("chosen", "rejected"), _HH),
    "Anthropic/hh-rlhf:test": KnownPairs(8_552, ("chosen", "rejected"), _HH),
    "hh:train": KnownPairs(160_800, ("chosen", "rejected"), _HH),  # the same under our name
    "hh:test": KnownPairs(8_552, ("chosen", "rejected"), _HH),
    "polite:train": KnownPairs(729, ("prompt", "chosen", "rejected"), _SHORT),
    "polite:test": KnownPairs(152, ("prompt", "chosen", "rejected"), _SHORT),
    "judges:train": KnownPairs(3_926, ("prompt", "chosen", "rejected", "subset"), _JUDGED),
    "judges:test": KnownPairs(966, ("prompt", "chosen", "rejected", "subset"), _JUDGED),
}


@dataclass(frozen=True)
class Found:
    """How many pairs there are, how long they are on average, and how that is known."""

    name: str
    pairs: int
    mean: Lengths
    source: str


def find_pairs(name: str, encoder: Encoder | None = None, limit: int | None = None, *, strict: bool = False) -> Found:
    """Count the pairs where they can be read; take the data card's word where they are known and out of reach.

    With an encoder lengths are in its tokens, on the first pairs; without one they are characters divided by four.
    """
    known = KNOWN_PAIRS.get(name if ":" in name else f"{name}:train")
    try:
        read = load_pairs(name, limit=limit, strict=strict)
    except InputError:
        if known is None:
            raise
        if missing := [column for column in NEEDED_COLUMNS if column not in known.columns]:
            raise InputError(f"{name} has no column {missing[0]!r}; choose another data set") from None
        pairs = min(known.pairs, limit) if limit else known.pairs
        return Found(name, pairs, known.lengths, "from the data card, not reached; mean lengths are assumed")
    left_out = f", {len(read.bad_rows):,} rows left out" if read.bad_rows else ""
    if encoder is not None:
        encoded, _ = encode_pairs(read[:SAMPLE], encoder)
        if encoded:
            found = [(pair.prompt, pair.chosen, pair.rejected) for pair in lengths_of(encoded)]
            return Found(name, len(read), _mean(found), f"counted{left_out}; lengths in the model's own tokens")
    texts = [(len(p.prompt_text), len(p.chosen), len(p.rejected)) for p in read[:SAMPLE]]
    how = f"counted{left_out}; {CHARACTERS_A_TOKEN} characters taken for a token"
    return Found(name, len(read), _mean(texts, CHARACTERS_A_TOKEN), how)


def _mean(found: Sequence[tuple[int, int, int]], unit: int = 1) -> Lengths:
    prompt, chosen, rejected = (max(1, round(sum(column) / len(found) / unit)) for column in zip(*found, strict=True))
    return Lengths(prompt, chosen, rejected)
