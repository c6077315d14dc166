"""Tasks in other processes: several with one thread each, or one with all threads."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import wait as wait_for
from pathlib import Path

from gapo.errors import TrainingStopped
from gapo.studies.tasks import Task
from gapo.studies.train import carry_out

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def done_in_turn(tasks: Sequence[Task], root: Path, side_by_side: int) -> Iterator[tuple[Task, dict[str, float]]]:
    """Carry out the tasks; each with its seconds by kind as it ends. Timed ones go alone.

    Timed ones and large models get a fresh process each: nothing of the gigabytes of one is left for the next.
    """
    timed, large = (any(marks) for marks in ([task.timed for task in tasks], [task.lean for task in tasks]))
    processes = 1 if timed else max(1, min(side_by_side, len(tasks)))
    with pool(processes, threads=max(1, cores() // processes), once=timed or large) as workers:
        yield from _collected(workers, tasks, root, processes)


def _collected(
    workers: ProcessPoolExecutor, tasks: Sequence[Task], root: Path, processes: int
) -> Iterator[tuple[Task, dict[str, float]]]:
    waiting, running = list(tasks), dict[Future[dict[str, float]], Task]()
    while waiting or running:
        while waiting and len(running) < processes:  # no more than run, so that an error stops the rest at once
            task = waiting.pop(0)
            running[workers.submit(carry_out, task, root)] = task
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            task = running.pop(future)
            try:
                spent = future.result()
            except BrokenProcessPool:
                raise TrainingStopped(
                    f"a process of the study was ended from outside (out of memory, perhaps) at {task.words}; finished "
                    f"runs are in {root}, and the same command goes on"
                ) from None
            yield task, spent


@contextmanager
def pool(processes: int, threads: int, *, once: bool = False) -> Iterator[ProcessPoolExecutor]:
    """Fresh processes with so many threads each. Whatever ends us ends them."""
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))  # read when the library is loaded
    context = multiprocessing.get_context("spawn")
    workers = ProcessPoolExecutor(
        processes, context, initializer=_begin, initargs=(threads,), max_tasks_per_child=1 if once else None
    )
    try:
        yield workers
        workers.shutdown()
    except BaseException:
        children = list((workers._processes or {}).values())
        workers.shutdown(wait=False, cancel_futures=True)
        for child in children:
            child.terminate()
        raise
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def _begin(threads: int) -> None:
    """In a new process: its threads, and no life beyond its parent's."""
    import torch

    torch.set_num_threads(threads)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it and ends us
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_leave_with, args=(parent.sentinel,), daemon=True).start()


def _leave_with(sentinel: int) -> None:
    wait_for([sentinel])
    os._exit(1)
