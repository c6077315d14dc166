"""Whether runs go faster side by side with a thread each, or one after the other with all threads: tried once.

Two threads of one run wait for each other in a spin loop, so runs never share a core; and small models gain little
from a second thread. Which is faster depends on the machine.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gapo.studies.grid import Cell, address_of, recipe_of
from gapo.studies.scale import MINI, Scale
from gapo.studies.store import Store, write_json
from gapo.studies.tasks import Task
from gapo.studies.train import carry_out
from gapo.studies.workers import cores, pool

FILE = "machine.json"
WORTH_A_TRY = 12  # runs; fewer are over before it pays
STEPS = 12


@dataclass(frozen=True)
class Tried:
    """Training seconds for one short run of the lab a core, one way and the other."""

    cores: int
    one_after_the_other: float
    side_by_side: float

    @property
    def processes(self) -> int:
        return self.cores if self.side_by_side < self.one_after_the_other else 1


def processes_for(runs: int, scale: Scale, root: Path, *, try_it: bool = True) -> int:
    """How many runs go at once: as tried on this machine, kept in the store. Large models use all threads."""
    if scale is not MINI or cores() == 1 or runs < 2:
        return 1
    known = _known(root)
    if known is None and try_it and runs >= WORTH_A_TRY:
        known = tried()
        write_json(root / FILE, known.__dict__)
    return known.processes if known is not None else 1


def tried() -> Tried:
    """The same short runs both ways, each in processes that have already loaded everything."""
    count = cores()
    return Tried(count, _seconds(1, count) * count, _seconds(count, 1))


def _seconds(processes: int, threads: int) -> float:
    """Training seconds of short runs at the same time: the slowest's."""
    with tempfile.TemporaryDirectory(prefix="gapo-try-") as folder, pool(processes, threads) as workers:
        tasks = [_short(seed) for seed in range(processes)]
        for future in [workers.submit(carry_out, task, Path(folder)) for task in tasks]:
            future.result()
        return max(Store(Path(folder)).run(task.address).evals["seconds"] for task in tasks)


def _short(seed: int) -> Task:
    cell = Cell("simpo", {"train.max_steps": STEPS, "data.limit": STEPS * MINI.step_pairs, "data.eval_limit": 64})
    recipe = recipe_of(cell, MINI, seed, {})
    return Task(address_of(recipe, cell), recipe, f"a try, seed {seed}", ())


def _known(root: Path) -> Tried | None:
    try:
        known = Tried(**json.loads((root / FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return known if known.cores == cores() else None
