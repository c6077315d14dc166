"""One task in a process of its own: train the run unless it is there, then look at it."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from gapo.errors import TrainingStopped
from gapo.runs.resume import RECIPE
from gapo.storage import whole_file
from gapo.studies.store import FACTS, STOPPED, Store, write_json
from gapo.studies.tasks import Task

STATUS = Path("/proc/self/status")
SAVED_EVERY = 25  # steps: a checkpoint of a large model takes seconds and gigabytes


def carry_out(task: Task, root: Path) -> dict[str, float]:
    """Train and observe; seconds by kind of work. A run that cannot go on is marked, with its reason."""
    store, spent = Store(root), dict[str, float]()
    with _quiet():
        if not task.trained:
            _write_recipe(task, root)
        elif not store.trained(task.address) or _weights_are_missed(task, store):
            store.forget_result(task.address)
            with _timed(spent, task.kind):
                _train(task, root)
        if store.stopped(task.address) is None:
            for observe in task.observers:
                if store.observed(task.address, observe) is None:
                    with _timed(spent, task.look(observe)):
                        store.keep(task.address, observe, observe(store.run(task.address)))
        if task.lean:
            store.drop_weights(task.address)
    return spent


def _weights_are_missed(task: Task, store: Store) -> bool:
    """Whether somebody new wants to look at a run whose weights were not kept."""
    if not task.lean or store.stopped(task.address) is not None or store.weights(task.address):
        return False
    return any(store.observed(task.address, look) is None for look in task.observers)


@contextmanager
def _timed(spent: dict[str, float], kind: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    spent[kind] = time.monotonic() - began


def _train(task: Task, root: Path) -> None:
    from gapo.runs.run import execute

    folder = root / task.address
    recipe = deepcopy(task.recipe)
    recipe["train"]["output_dir"] = str(folder)
    recipe["data"]["keep_texts"] = False  # hundreds of runs on the same pairs
    if task.lean and not task.timed:
        recipe["train"] |= _kept_on_the_way(recipe["train"])
    try:
        execute(recipe, command=["gapo", "study"], resume=True, say=lambda _: None)
    except TrainingStopped as stop:
        write_json(folder / STOPPED, {"reason": str(stop)})
        return
    if task.timed:
        write_json(folder / FACTS, {"peak_bytes": peak_bytes()})


def _kept_on_the_way(train: Mapping[str, Any]) -> dict[str, Any]:
    """How often a run of hours saves, so that one that was cut short goes on, to the same bits. Short ones do not."""
    steps = int(train.get("max_steps") or -1)
    if train["save_strategy"] != "no" or 0 < steps <= SAVED_EVERY:
        return {}
    return {"save_strategy": "steps", "save_steps": SAVED_EVERY, "save_total_limit": 1}


def _write_recipe(task: Task, root: Path) -> None:
    with whole_file(root / task.address / RECIPE) as part:
        part.write_text(yaml.safe_dump(task.recipe, sort_keys=False, allow_unicode=True), encoding="utf-8")


def peak_bytes() -> int:
    """The most this process ever held. From /proc where there is one: ru_maxrss survives exec."""
    if STATUS.is_file() and (found := re.search(r"VmHWM:\s+(\d+) kB", STATUS.read_text())):
        return int(found.group(1)) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@contextmanager
def _quiet() -> Iterator[None]:
    """A run of a study says nothing: its warnings are in its results."""
    import logging
    import warnings

    import transformers

    verbosity = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    ours = logging.getLogger("gapo")
    level = ours.level
    ours.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        ours.setLevel(level)
        transformers.logging.set_verbosity(verbosity)
