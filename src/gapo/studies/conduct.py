"""Plan studies, carry them out, and gather what was observed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gapo.errors import InputError
from gapo.studies.rows import Rows
from gapo.studies.side_by_side import processes_for
from gapo.studies.study import Study
from gapo.studies.tasks import Setting, Task, not_published, parts_left, rows_of, tasks_of, to_do, waves
from gapo.studies.times import FILE, Times
from gapo.studies.workers import done_in_turn


@dataclass(frozen=True)
class Plan:
    """What a study (or several) would train, and how long that takes about."""

    runs: int
    left: int
    seconds: float
    whole_seconds: float
    side_by_side: int


@dataclass(frozen=True)
class Ended:
    """A task that was just carried out, and what is left."""

    task: Task
    seconds: float
    left: int
    seconds_left: float


Tell = Callable[[Ended], None]


def plan(studies: Sequence[Study], setting: Setting) -> Plan:
    """Runs that are shared between the studies count once."""
    tasks = tasks_of(studies, setting)
    left = to_do(not_published(studies, setting), setting.store)
    times = Times(setting.store.root / FILE)
    processes = processes_for(len(tasks), setting.scale, setting.store.root, try_it=False)
    rest = times.total(left, [parts_left(task, setting.scale, setting.store) for task in left], processes)
    whole = times.total(tasks, [task.parts(setting.scale) for task in tasks], processes)
    return Plan(len(tasks), len(left), rest, whole, processes)


def carry_out_all(
    studies: Sequence[Study], setting: Setting, tell: Tell, side_by_side: int | None = None
) -> tuple[int, int]:
    """Do what is left to do; how many tasks that was, and how many went side by side. What is done stays done."""
    left = to_do(not_published(studies, setting), setting.store)
    shared = [task for task in left if not task.timed]
    processes = side_by_side or processes_for(len(shared), setting.scale, setting.store.root)
    times = Times(setting.store.root / FILE)
    rest = times.expected(parts_left(task, setting.scale, setting.store) for task in left)
    expected = {task.address: seconds for task, seconds in zip(left, rest, strict=True)}
    weight = {task.address: expected[task.address] / (1 if task.timed else processes) for task in left}
    ahead, done, spent = sum(weight.values()), 0, 0.0
    for wave in waves(left):
        for task, by_kind in done_in_turn(wave, setting.store.root, processes):
            times.keep(by_kind)
            seconds = sum(by_kind.values())
            done, spent = done + 1, spent + seconds / (1 if task.timed else processes)
            past = sum(weight.values()) - ahead + weight[task.address]
            ahead -= weight[task.address]
            tell(Ended(task, seconds, len(left) - done, ahead * spent / past if past else 0.0))
    return len(left), processes


def gathered(study: Study, setting: Setting, kept: Rows) -> Rows:
    """The rows of a finished study; a sentence where runs are missing. A long study may have some of its rows."""
    rows, missing = rows_of(study, setting, kept)
    if missing and not study.long:
        raise InputError(
            f"{study.name}: {len(set(missing))} of its runs are not in {setting.store.root}; "
            f"run `gapo study {study.name}` without --from-runs to train them"
        )
    return rows
