"""What studies ask for, without repetition: a task for each different run, with everything that will look at it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from gapo.runs.recipe import Recipe
from gapo.studies.grid import Cell, Tuned, address_of, recipe_of
from gapo.studies.rows import Row, Rows
from gapo.studies.scale import MINI, Scale
from gapo.studies.store import Observer, Store, usual_seconds
from gapo.studies.study import Study


@dataclass(frozen=True)
class Task:
    """A run to train (unless it is there) and to observe."""

    address: str
    recipe: Recipe
    words: str
    observers: tuple[Observer, ...]
    timed: bool = False
    trained: bool = True
    after: str | None = None  # the address of the task that must be done before
    lean: bool = False  # the weights go once everyone has looked
    seconds: float | None = None  # what training takes about

    @property
    def kind(self) -> str:
        """Trainings of one kind take about the same time."""
        data, train, anchor = (self.recipe[section] for section in ("data", "train", "anchor"))
        cut = f"{train.get('per_device_train_batch_size')}x{train.get('gradient_accumulation_steps', 1)}"
        length = f"{data['limit']} pairs {train.get('num_train_epochs', 1)} epochs {train.get('max_steps', -1)} steps"
        how = f"{anchor['strategy']} {anchor['engine']} {anchor['scope']} sam {train.get('sam_radius', 0)}"
        alone = " alone" if self.timed else ""
        what = f"{self.recipe['model']['name']} {self.recipe['objective']['name']} on {data['train']}"
        return f"{what} {how} {length} {cut}{alone}"

    def look(self, observe: Observer) -> str:
        """Looks of one kind take about the same time."""
        return f"{observe.__name__} {'after' if self.trained else 'before'} {self.kind}"

    def parts(self, scale: Scale) -> dict[str, float]:
        """The kinds of all it is made of, each with the seconds it takes until one was measured."""
        slower = scale.run_seconds / MINI.run_seconds
        training = {self.kind: self.seconds or scale.run_seconds} if self.trained else {}
        return training | {self.look(observe): slower * usual_seconds(observe) for observe in self.observers}


@dataclass(frozen=True)
class Asked:
    """A cell of a study at a seed, and where its run is."""

    cell: Cell
    seed: int
    address: str


@dataclass(frozen=True)
class Setting:
    """What all studies of one command share."""

    scale: Scale
    store: Store
    tuned: Tuned
    seeds: int | None = None
    published: Mapping[str, frozenset[str]] = field(default_factory=dict)  # by long study, runs its page has rows of


def asked_for(study: Study, setting: Setting) -> list[tuple[Asked, Task]]:
    """Every cell at every seed; seeds go round outside, so that runs to be compared are made close to each other."""
    cells = list(study.grid(setting.scale))
    return [
        (Asked(cell, seed, task.address), task)
        for seed in study.seed_list(setting.scale, setting.seeds)
        for cell in cells
        for task in [_task(study, cell, setting, seed)]
    ]


def _task(study: Study, cell: Cell, setting: Setting, seed: int) -> Task:
    before = _task(study, cell.after, setting, seed) if cell.after is not None else None
    folder = (setting.store.root / before.address).as_posix() if before is not None else None
    recipe = recipe_of(cell, setting.scale, seed, setting.tuned, folder)
    words = f"{study.name}: {cell.words}, seed {seed}"
    after = before.address if before is not None else None
    address = address_of(recipe, cell)
    return Task(address, recipe, words, (study.observe,), cell.timed, cell.trained, after, study.long, cell.seconds)


def tasks_of(studies: Iterable[Study], setting: Setting) -> list[Task]:
    """One task for each address, with the observers of every study that asks for it; first seeds come first.

    Weights are kept where one of the studies keeps them.
    """
    found: dict[str, Task] = {}
    wanted = [(study, asked, task) for study in studies for asked, task in asked_for(study, setting)]
    for study, asked, task in sorted(wanted, key=lambda each: each[1].seed):
        for one in [*_before(study, asked.cell, setting, asked.seed), task]:
            old = found.get(one.address, one)
            looks = tuple(dict.fromkeys((*old.observers, *one.observers)))
            found[one.address] = replace(old, observers=looks, lean=old.lean and one.lean)
    return list(found.values())


def not_published(studies: Sequence[Study], setting: Setting) -> list[Task]:
    """The tasks of `tasks_of` without what long studies have rows of already, whatever is in the store."""
    shown = {
        (task.address, study.observe)
        for study in studies
        for _, task in asked_for(study, setting)
        if task.address in setting.published.get(study.name, ())
    }
    return [
        replace(task, observers=looks)
        for task in tasks_of(studies, setting)
        for looks in [tuple(look for look in task.observers if (task.address, look) not in shown)]
        if looks
    ]


def _before(study: Study, cell: Cell, setting: Setting, seed: int) -> list[Task]:
    if cell.after is None:
        return []
    return [*_before(study, cell.after, setting, seed), _task(study, cell.after, setting, seed)]


def to_do(tasks: Iterable[Task], store: Store) -> list[Task]:
    """Tasks that are not finished: not trained, or not yet looked at by everyone who asks."""
    return [task for task in tasks if not _done(task, store)]


def _done(task: Task, store: Store) -> bool:
    if store.stopped(task.address) is not None:
        return True
    trained = not task.trained or store.trained(task.address)
    return trained and all(store.observed(task.address, look) is not None for look in task.observers)


def parts_left(task: Task, scale: Scale, store: Store) -> dict[str, float]:
    """The parts of a task that are not there yet."""
    there = {task.look(look) for look in task.observers if store.observed(task.address, look) is not None}
    if store.trained(task.address):
        there.add(task.kind)
    return {kind: seconds for kind, seconds in task.parts(scale).items() if kind not in there}


def waves(tasks: Sequence[Task]) -> list[list[Task]]:
    """Tasks in groups, in their order: each group needs only what those before it made, and is timed or is not."""
    left, found = list(tasks), []
    while left:
        waiting = {task.address for task in left}
        ready = [task for task in left if task.after not in waiting]
        found += [list(group) for _, group in groupby(ready, key=lambda task: task.timed)]
        left = [task for task in left if task.after in waiting]
    return found


def rows_of(study: Study, setting: Setting, kept: Sequence[Row] = ()) -> tuple[Rows, list[str]]:
    """The observed rows of a study with labels, seed and run; and the addresses for which there are none.

    `kept` are rows of an earlier page, for runs that are not in the store. A row may say more exactly what its label
    says (a rate that was tried on the start model), so labels decide only between cells that share a run.
    """
    rows: Rows = []
    missing: list[str] = []
    earlier = {row["run"] for row in kept}
    every = asked_for(study, setting)
    cells = Counter(asked.address for asked, _ in every)
    for asked, _ in every:
        labels = {"method": asked.cell.method, **asked.cell.labels, "seed": asked.seed, "run": asked.address}
        seen = setting.store.observed(asked.address, study.observe)
        reason = setting.store.stopped(asked.address)
        if reason is not None:
            rows.append({**labels, "stopped": reason})
        elif seen is not None:
            rows += [{**labels, **row} for row in seen]
        elif asked.address in earlier:
            sought = labels if cells[asked.address] > 1 else {"run": asked.address}
            rows += [row for row in kept if sought.items() <= row.items()]
        else:
            missing.append(asked.address)
    return rows, missing
