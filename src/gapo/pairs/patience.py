"""A limit to the time that somebody else's program may take inside ours."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def processor_time(seconds: float) -> Iterator[None]:
    """TimeoutError in the body once this process has computed for so long.

    The timer of processor time, not that of the clock: it belongs to no test runner, and a busy machine does not set
    it off. Where there is none (another thread, Windows) there is no limit.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"it was not done after {seconds:g} seconds")

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
