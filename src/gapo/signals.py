"""Hearing a signal for a while."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

Handler = Callable[[int, FrameType | None], object]


@contextmanager
def heard(handler: Handler, *numbers: signal.Signals) -> Iterator[None]:
    """Inside, these signals call the handler; then whoever heard them before does again.

    Only the main thread can hear signals, and what the user ignores (nohup, a job in the background) stays ignored.
    """
    here = threading.current_thread() is threading.main_thread()
    wanted = [number for number in numbers if here and signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in wanted}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier if earlier is not None else signal.SIG_DFL)
