"""The start model is loaded once; a test that changes it takes a copy."""

import pytest
from transformers import LlamaForCausalLM, PreTrainedTokenizerBase

from gapo.lab.load import load_pairs, load_start
from gapo.pairs.pair import PairSet


@pytest.fixture(scope="session")
def started() -> tuple[LlamaForCausalLM, PreTrainedTokenizerBase]:
    return load_start()


@pytest.fixture(scope="session")
def shipped() -> dict[str, PairSet]:
    return {"train": load_pairs("train"), "test": load_pairs("test")}
