"""`gapo train --processes N`: the same command as N processes of this machine that share each step."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from types import FrameType

import typer

PATIENCE = 5.0  # seconds that ranks give each other at the end


def launch(processes: int) -> None:
    """Run this very command as so many ranks and leave with the first failure's exit code."""
    arguments = _without_processes(sys.argv[1:])
    port = _free_port()
    running = [_start(arguments, rank, processes, port) for rank in range(processes)]

    def stop(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        code = _wait(running)
    except KeyboardInterrupt:
        code = 130
    finally:
        signal.signal(signal.SIGTERM, before)
        _end(running)
    if code:
        raise typer.Exit(code)


def rank_here() -> int:
    """Which of the launched processes this is, as the launcher has said."""
    return int(os.environ.get("RANK") or 0)


def let_the_first_rank_speak() -> None:
    """What all ranks have to say, one says: the others wait, and are stopped once it has ended."""
    if rank_here() > 0:
        time.sleep(PATIENCE)


def _start(arguments: list[str], rank: int, processes: int, port: int) -> subprocess.Popen[bytes]:
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
    }
    return subprocess.Popen([sys.executable, "-m", "gapo", *arguments], env=environment)


def _wait(running: list[subprocess.Popen[bytes]]) -> int:
    """Until all have ended well, or one has not: its exit code."""
    while True:
        codes = [process.poll() for process in running]
        for code in codes:
            if code:
                return code if code > 0 else 128 - code  # ended by a signal
        if all(code == 0 for code in codes):
            return 0
        time.sleep(0.05)


def _end(running: list[subprocess.Popen[bytes]]) -> None:
    """None is left behind: first asked, then made to."""
    for process in running:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + PATIENCE
    for process in running:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


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
