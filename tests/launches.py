"""Start the same program as several processes that know of each other, one thread each."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

TIMEOUT = 280


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def environment(**more: str) -> dict[str, str]:
    """One thread, no network but this machine, nothing of a launcher that may have started us."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("ACCELERATE_", "FSDP_"))}
    return {**kept, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "GLOO_SOCKET_IFNAME": "lo", **more}


def together(command: list[str], processes: int = 2) -> None:
    """Run to the end on all ranks; the first failure is shown and stops the others."""
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(processes)}
    shared["LOCAL_WORLD_SIZE"] = str(processes)
    running = [
        subprocess.Popen(
            [sys.executable, *command],
            env=environment(**shared, RANK=str(rank), LOCAL_RANK=str(rank), PYTHONPATH=search_path()),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(processes)
    ]
    said: list[str] = []
    try:
        for process in running:
            said.append(process.communicate(timeout=TIMEOUT)[0])
            if process.returncode:
                raise AssertionError(said[-1][-6000:])
    finally:
        for process in running:
            process.kill()


def search_path() -> str:
    """Where this test found gapo and its helpers."""
    return os.pathsep.join(dict.fromkeys([*filter(None, sys.path), str(Path(__file__).parent)]))
