"""A hub that is not there costs no minute, and its settings come back."""

import socket

import datasets
import pytest
from huggingface_hub import constants

from gapo.errors import InputError
from gapo.pairs.formats import load_pairs
from gapo.pairs.hub import answers, hub_as_it_is


@pytest.fixture
def nobody(monkeypatch):
    """An address of this machine at which nobody listens, and no proxy."""
    monkeypatch.setattr("gapo.pairs.hub.getproxies", dict)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{closed.getsockname()[1]}"
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    return endpoint


def test_somebody_and_nobody(nobody, monkeypatch):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        assert answers(f"http://127.0.0.1:{listener.getsockname()[1]}")
    assert not answers(nobody)
    monkeypatch.setattr("gapo.pairs.hub.getproxies", lambda: {"https": "http://proxy"})
    assert answers(nobody)


def test_nobody_is_not_asked(nobody):
    with hub_as_it_is():
        assert constants.HF_HUB_OFFLINE
        assert datasets.config.HF_HUB_OFFLINE
    assert not constants.HF_HUB_OFFLINE
    assert not datasets.config.HF_HUB_OFFLINE


def test_a_set_that_cannot_be_fetched_is_one_sentence_at_once(nobody):
    with pytest.raises(InputError, match="could not fetch 'nobody/nothing'"):
        load_pairs("nobody/nothing")
