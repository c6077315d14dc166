"""`gapo train --processes N`: the same command as N processes of this machine that share each step."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from types import FrameType

import typer

from gapo.errors import TrainingStopped
from gapo.signals import heard

PATIENCE = 5.0  # seconds that ranks give each other at the end
LAUNCHER = "GAPO_LAUNCHER"  # in the environment of a rank: the process that started it
SAID = "GAPO_SAID"  # in the environment of a rank: a folder with a file for each sentence that a rank has said
LOST = ("gloo", "NCCL", "Connection closed by peer", "Connection reset by peer")  # what a rank hears of a dead one


def launch(processes: int, goes_on: str) -> None:
    """Run this very command as so many ranks and leave with the first failure's exit code.

    Signals are passed on, and the ranks decide together. `goes_on` says how, should one of them be killed.
    """
    arguments = _without_processes(sys.argv[1:])
    port = _free_port()
    running: list[subprocess.Popen[bytes]] = []
    asked: list[int] = []
    said = tempfile.TemporaryDirectory(prefix="gapo-", ignore_cleanup_errors=True)

    def pass_on(number: int, _: FrameType | None) -> None:
        asked.append(number)
        for process in running:
            process.send_signal(number)

    try:
        with heard(pass_on, signal.SIGINT, signal.SIGTERM):
            for rank in range(processes):
                running.append(_start(arguments, rank, processes, port, said.name))
            rank, code = _wait(running)
            if asked:
                _let_end(running)  # each by itself
            elif code < 0:
                for process in running:  # they wait for it: asked to leave, they could not agree on a step
                    process.kill()
    finally:
        _end(running)
        said.cleanup()
    if code < 0 and not asked:
        raise TrainingStopped(
            f"process {rank + 1} of {processes} was ended from outside ({signal.Signals(-code).name}; out of memory, "
            f"perhaps) and the others were stopped; {goes_on}"
        )
    if code:
        raise typer.Exit(code if code > 0 else 128 - code)


def end_with_the_launcher() -> None:
    """A rank whose launcher was killed ends too."""
    if os.environ.get(LAUNCHER) == str(os.getppid()):
        from gapo.pairs.tokenise import end_with

        threading.Thread(target=end_with, args=(int(os.environ[LAUNCHER]),), daemon=True).start()


def another_is_gone(error: Exception) -> str | None:
    """What a rank says whose exchange with another broke; our launcher, if there is one, says more and ends it."""
    if int(os.environ.get("WORLD_SIZE") or 1) == 1 or not any(mark in str(error) for mark in LOST):
        return None
    if LAUNCHER in os.environ:
        time.sleep(PATIENCE)
    return "another process of this run has ended, so this one stops too; what was written is whole"


def rank_here() -> int:
    """Which of the launched processes this is, as the launcher has said."""
    return int(os.environ.get("RANK") or 0)


def say_once(words: str) -> None:
    """What all ranks have to say, one says: the others wait, and are stopped once it has ended.

    On a busy machine it may come later than they have patience; then it has nothing left to say.
    """
    if rank_here() > 0:
        time.sleep(PATIENCE)
    if not _was_said(words):
        typer.echo(words, err=True)


def _was_said(words: str) -> bool:
    """Whether another rank was first with it. Only ranks of our launcher can know."""
    folder = os.environ.get(SAID)
    if folder is None:
        return False
    try:
        with open(Path(folder, blake2b(words.encode()).hexdigest()), "x"):
            return False
    except FileExistsError:
        return True
    except OSError:  # a full disk, or the launcher is gone: better twice than never
        return False


def _start(arguments: list[str], rank: int, processes: int, port: int, said: str) -> subprocess.Popen[bytes]:
    threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, (os.cpu_count() or 1) // processes))
    environment = {
        **os.environ,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(processes),
        "LOCAL_WORLD_SIZE": str(processes),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": threads,  # or every process would use every core
        LAUNCHER: str(os.getpid()),
        SAID: said,
    }
    # in a group of its own: the terminal's Ctrl-C is ours to pass on, or a rank would hear it twice
    return subprocess.Popen([sys.executable, "-m", "gapo", *arguments], env=environment, process_group=0)


def _wait(running: list[subprocess.Popen[bytes]]) -> tuple[int, int]:
    """Until all have ended well, or one has not: which, and its exit code. One that was killed was the first."""
    while True:
        codes = [process.poll() for process in running]
        failed = sorted((code, rank) for rank, code in enumerate(codes) if code)
        if failed:
            return failed[0][1], failed[0][0]
        if all(code == 0 for code in codes):
            return 0, 0
        time.sleep(0.05)


def _end(running: list[subprocess.Popen[bytes]]) -> None:
    """None is left behind: first asked, then made to."""
    for process in running:
        if process.poll() is None:
            process.terminate()
    _let_end(running)
    for process in running:
        if process.poll() is None:
            process.kill()
            process.wait()


def _let_end(running: list[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + PATIENCE
    for process in running:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))


def _without_processes(arguments: list[str]) -> list[str]:
    """The command without `--processes N` or `--processes=N`."""
    kept: list[str] = []
    skip = False
    for argument in arguments:
        if not (skip or argument == "--processes" or argument.startswith("--processes=")):
            kept.append(argument)
        skip = argument == "--processes"
    return kept


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
