"""What studies look at again after training: the model of a run, and a batch of its held-out pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gapo.pairs.formats import load_pairs
from gapo.runs.recipe import policy_arguments
from gapo.studies.store import StoredRun

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from gapo.model.load import Policy
    from gapo.pairs.encode import EncodedPair, Encoder


def start_of(run: StoredRun) -> Policy:
    """The model that the run begins with."""
    from gapo.model.load import load_policy

    return load_policy(**policy_arguments(run.recipe), say=lambda _: None)


def model_of(run: StoredRun) -> Policy:
    """The trained model; of a cell that is not trained the start model."""
    from gapo.model.load import load_policy

    return load_policy(str(run.model), say=lambda _: None) if run.model.is_dir() else start_of(run)


def encoder_of(run: StoredRun, tokenizer: PreTrainedTokenizerBase) -> Encoder:
    """Text becomes ids as in the run."""
    from gapo.pairs.encode import Encoder

    data = run.recipe["data"]
    return Encoder(tokenizer, data.get("max_length", 2048), data.get("max_prompt_length"), data.get("template", "auto"))


def held_out(run: StoredRun, tokenizer: PreTrainedTokenizerBase, count: int) -> list[EncodedPair]:
    """Clean test pairs, drawn by the run's seed: the same ones for every method, others for every seed."""
    from gapo.pairs.encode import encode_pairs

    pairs = load_pairs(run.recipe["data"]["eval"], limit=run.recipe["data"]["eval_limit"])
    encoded, _ = encode_pairs(pairs, encoder_of(run, tokenizer))
    order = np.random.default_rng(run.recipe["train"]["seed"]).permutation(len(encoded))
    return [encoded[int(place)] for place in order[:count]]
