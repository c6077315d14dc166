"""A hub that cannot be reached is found out at once, and what is cached is used."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit
from urllib.request import getproxies

PATIENCE = 3.0  # seconds; the hub's own client tries for most of a minute, and says so each time


def answers(endpoint: str) -> bool:
    """Whether somebody listens there. Behind a proxy only a request could tell, so it is taken for granted."""
    if getproxies():
        return True
    parts = urlsplit(endpoint)
    try:
        port = parts.port or (80 if parts.scheme == "http" else 443)
        socket.create_connection((parts.hostname or "", port), timeout=PATIENCE).close()
    except OSError:
        return False
    return True


@contextmanager
def hub_as_it_is() -> Iterator[None]:
    """Inside, a hub that does not answer is not asked: only its cache is."""
    import datasets
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE
    if not any(before) and not answers(constants.ENDPOINT):
        constants.HF_HUB_OFFLINE = datasets.config.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE = before
