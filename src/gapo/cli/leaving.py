"""How a command leaves when it is asked to: a line that says what is kept, and the exit code a shell expects."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

import typer

from gapo.cli.launch import LAUNCHER, rank_here
from gapo.errors import Interrupted
from gapo.signals import heard

Words = Callable[[Interrupted], str]


@contextmanager
def may_leave(words: Words) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the body; `words` say what is kept and how to go on. Exit codes: 130 and 143."""
    try:
        with heard(_interrupt, signal.SIGTERM):
            yield
    except KeyboardInterrupt as error:
        asked = error if isinstance(error, Interrupted) else Interrupted(signal.SIGINT)
        if rank_here() == 0:
            typer.echo(f"\ngapo: {words(asked)}", err=True)
        raise typer.Exit(128 + asked.number) from None


def leave_at_once(number: int, _: FrameType | None) -> NoReturn:
    """For commands that have nothing to say."""
    raise SystemExit(128 + number)


def _interrupt(number: int, _: FrameType | None) -> NoReturn:
    raise Interrupted(number)


def command_to_resume() -> str:
    """This command with --resume, as a person types it."""
    words = ["gapo", *(word for word in sys.argv[1:] if word != "--resume"), "--resume"]
    processes = os.environ.get("WORLD_SIZE", "1") if LAUNCHER in os.environ else "1"
    return shlex.join([*words, "--processes", processes] if processes != "1" else words)
