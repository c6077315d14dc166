"""Wrong labels on purpose: flip some pairs, and say which.

A rule names the pairs it could flip, in the order in which it would flip them; `flip` takes as many from the front as
the rate asks for. So with one seed the flips at a low rate are among the flips at a higher rate, and runs along a noise
curve differ only by the labels that were added.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gapo.errors import InputError, did_you_mean
from gapo.pairs.formats import load_pairs
from gapo.pairs.pair import PairSet, PreferencePair
from gapo.pairs.sources import PairSource
from gapo.pairs.stored_text import StoredPairs

STREAM = 1  # one seed for several purposes must not give them the same random numbers
Order = Sequence[int] | NDArray[np.int64]  # positions of pairs, the first to be flipped first
Rule = Callable[[PairSet, np.random.Generator], Order]


def random(pairs: PairSet, rng: np.random.Generator) -> NDArray[np.int64]:
    """Any pair, each as likely as the other: an annotator who tosses a coin."""
    return rng.permutation(len(pairs))


def length(pairs: PairSet, rng: np.random.Generator) -> NDArray[np.int64]:
    """Only pairs whose chosen response has more characters: an annotator who dislikes long answers.

    Characters, not tokens, so that the noise does not depend on the model that is trained on it.
    """
    if isinstance(pairs.pairs, StoredPairs):
        chosen, rejected = pairs.pairs.characters()
        longer = chosen > rejected
    else:
        longer = np.fromiter((len(pair.chosen) > len(pair.rejected) for pair in pairs), np.bool_, len(pairs))
    order = random(pairs, rng)
    return order[longer[order]]


def none(pairs: PairSet, rng: np.random.Generator) -> Order:
    """No pair: the clean end of a noise curve."""
    return ()


FLIP_RULES: dict[str, Rule] = {"random": random, "length": length, "none": none}


def flip(pairs: PairSource, rate: float, kind: str = "random", seed: int = 0) -> tuple[PairSet, tuple[bool, ...]]:
    """The noisy set, and for each pair whether it was flipped now: round(rate * n) of them, as Python rounds.

    Every pair comes back marked; one that was marked before and is flipped again is clean again. A rule that finds
    fewer pairs than asked for flips those and warns.
    """
    if kind not in FLIP_RULES:
        raise InputError(f"unknown flip rule {kind!r}; {did_you_mean(kind, FLIP_RULES)}")
    if not 0 <= rate <= 1:
        raise InputError(f"a flip rate must lie between 0 and 1, not {rate}")
    if seed < 0:
        raise InputError(f"a seed must be 0 or more, not {seed}")
    pairs = load_pairs(pairs)
    asked = 0 if kind == "none" else round(rate * len(pairs))
    order = FLIP_RULES[kind](pairs, np.random.default_rng([seed, STREAM]))
    if len(order) < asked:
        warnings.warn(
            f"flip rule {kind!r} found only {len(order)} pairs where {asked} were asked for; it flipped all of them",
            stacklevel=2,
        )
    now = np.zeros(len(pairs), dtype=np.bool_)
    now[np.asarray(order[:asked], dtype=np.int64)] = True
    mask = tuple(now.tolist())
    if isinstance(pairs.pairs, StoredPairs):
        return replace(pairs, pairs=pairs.pairs.flip(now)), mask
    marked = tuple(_marked(pair, flipped) for pair, flipped in zip(pairs, mask, strict=True))
    return replace(pairs, pairs=marked), mask


def _marked(pair: PreferencePair, now: bool) -> PreferencePair:
    return replace(pair.swapped() if now else pair, flipped=bool(pair.flipped) != now)
