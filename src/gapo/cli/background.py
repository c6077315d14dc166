"""A command that goes on without its terminal: the same words in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from gapo.errors import InputError
from gapo.runs.alive import is_at_work
from gapo.storage import writing

OPTION = "--background"
PATIENCE = 60.0  # seconds that it may take to begin: it loads everything anew
LAST_WORDS = 500  # characters of its log


def in_background(folder: Path, log: Path) -> int:
    """Start this command again, without --background, as a process of its own session; its number.

    It is at work when it holds the folder's lock. What it says is added to the log.
    """
    words = [word for word in sys.argv[1:] if word != OPTION]
    with writing(log):
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "ab") as said:
            process = subprocess.Popen(
                [sys.executable, "-m", "gapo", *words],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # closing the terminal does not end it
            )
    until = time.monotonic() + PATIENCE
    while process.poll() is None and is_at_work(folder) is False and time.monotonic() < until:
        time.sleep(0.1)
    if process.returncode:
        end = log.read_text(encoding="utf-8", errors="replace")[-LAST_WORDS:].strip()
        raise InputError(f"the command ended at once (all it said is in {log}): {end}")
    return process.pid
