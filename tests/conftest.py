"""No network, one thread, and the fixtures every folder uses."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")

import pytest
import torch

import tiny

torch.set_num_threads(1)  # matrices of 32 gain nothing from a second; on a busy machine two cost 7x the time


@pytest.fixture(params=sorted(tiny.MODELS))
def any_model(request):
    """Each architecture in turn, in float64."""
    return tiny.MODELS[request.param]()


@pytest.fixture
def llama():
    return tiny.llama()


@pytest.fixture
def encoded_pairs():
    return tiny.random_pairs()


@pytest.fixture
def tokenizer():
    """Adds the start token; has no chat template."""
    return tiny.tiny_tokenizer()


@pytest.fixture
def chat_tokenizer():
    """Adds the start token, and so does its chat template."""
    return tiny.tiny_tokenizer(tiny.CHAT)
