"""Preference pairs from the start model's own replies, labelled by true quality, with length held out of the label."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from gapo.lab.sampling import sample_replies
from gapo.lab.world import quality
from gapo.pairs.pair import PreferencePair

LEAST_DIFFERENCE = 0.15  # in quality
MOST_WORDS = 24  # a longer reply may have been cut off by the limit of sampling
REPLIES_PER_ROUND = 6
SEED_STRIDE = 1000  # rounds of sampling use seed, seed + 1000, ...


def choose_pairs(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, prompts: Sequence[str], seed: int
) -> list[PreferencePair]:
    """One pair per prompt, in order; at even places the chosen reply is the longer one, at odd places the shorter.

    Half and half, so the label cannot be read off the lengths. A prompt whose replies hold no such pair is asked
    again, up to ten rounds.
    """
    pairs: dict[int, PreferencePair] = {}
    heard: dict[int, list[str]] = {i: [] for i in range(len(prompts))}
    for round_ in range(10):
        open_ = [i for i in heard if i not in pairs]
        if not open_:
            break
        asked = [i for i in open_ for _ in range(REPLIES_PER_ROUND)]
        replies = sample_replies(model, tokenizer, [prompts[i] for i in asked], seed + SEED_STRIDE * round_)
        for i, reply in zip(asked, replies, strict=True):
            if 0 < len(reply.split()) <= MOST_WORDS:
                heard[i].append(reply)
        for i in open_:
            pair = _pair(prompts[i], heard[i], longer=i % 2 == 0)
            if pair is not None:
                pairs[i] = pair
    missing = [prompts[i] for i in heard if i not in pairs]
    if missing:
        raise RuntimeError(f"no pair after ten rounds for {len(missing)} prompts, first {missing[0]!r}")
    return [pairs[i] for i in range(len(prompts))]


def _pair(prompt: str, replies: Sequence[str], *, longer: bool) -> PreferencePair | None:
    """The first two replies, in the order they were sampled, that differ enough and in the wanted direction."""
    for first, second in itertools.combinations(replies, 2):
        better, worse = sorted((first, second), key=lambda reply: -quality(prompt, reply))
        apart = quality(prompt, better) - quality(prompt, worse) >= LEAST_DIFFERENCE
        gain = len(better.split()) - len(worse.split())
        if apart and gain != 0 and (gain > 0) == longer:
            return PreferencePair(prompt, better, worse)
    return None
