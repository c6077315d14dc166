"""What a run folder says about where it stands, and how a run goes on from there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapo.errors import InputError
from gapo.pairs.yaml_text import NotYaml, read_yaml
from gapo.runs.alive import LOCK, refuse_held
from gapo.runs.environment import environment
from gapo.runs.recipe import Recipe, differences
from gapo.storage import clear_parts, is_part, whole_file
from gapo.training.checkpoints import FOLDER as CHECKPOINTS

if TYPE_CHECKING:
    from gapo.training.trainer import PreferenceTrainer

Say = Callable[[str], None]
START = "start.json"
RESULT = "evals.json"
RECIPE = "recipe.yaml"
RECORD = ("steps.jsonl", "pairs.parquet")
SAME_MACHINE = ("device", "threads", "processes", "system", "python")  # of environment.json
SAME_PACKAGES = ("gapo", "torch", "transformers", "accelerate", "peft", "numpy")


@dataclass(frozen=True)
class Standing:
    """Where a run stands: not begun, begun, or finished (its result is there)."""

    folder: Path
    recipe: Recipe | None = None
    result: dict[str, Any] | None = None
    start: dict[str, Any] | None = None  # what was decided and measured before the first step

    @property
    def finished(self) -> bool:
        return self.result is not None


def standing_of(folder: Path) -> Standing:
    """Read a run folder; what a kill cut short counts as not there."""
    recipe = _read_yaml(folder / RECIPE)
    begun = recipe is not None
    return Standing(folder, recipe, _read_json(folder / RESULT) if begun else None, _read_json(folder / START))


def folder_for(recipe: Recipe, folders: Sequence[Path], *, resume: bool, given: bool, named: bool) -> Path:
    """The folder to run in: the one to resume; or the one asked for if it is free; or one next to a finished run.

    `folders` are those of the recipe's runs, one or several below `train.output_dir`. `given`: the user asked for this
    folder now; `named`: the user or the recipe did.
    """
    folder = Path(recipe["train"]["output_dir"])
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; choose another train.output_dir")
    inside = [path.relative_to(folder) for path in folders]
    newest = folder if named else _last_numbered(folder)
    for path in inside:
        refuse_held(newest / path)
    runs = [standing_of(newest / path) for path in inside]
    begun = any(run.recipe is not None for run in runs)
    if resume:
        if not begun and not is_free(newest):
            raise InputError(f"{newest} holds no run to resume; start it without --resume in another train.output_dir")
        return newest
    if begun and not all(run.finished for run in runs):
        raise InputError(
            f"{newest} holds a run that is not finished; go on with --resume, or choose another train.output_dir"
        )
    if is_free(folder):
        return folder
    if given:
        raise InputError(f"{folder} is not empty; choose another train.output_dir, or go on with --resume")
    return _next_numbered(folder)


def is_free(folder: Path) -> bool:
    """Whether nothing is there but what a kill left of a first file, perhaps in the folder of one of several runs."""
    return not folder.exists() or all(
        is_part(path) or path.name == LOCK or (path.is_dir() and is_free(path)) for path in folder.iterdir()
    )


def result_to_tell(run: Standing, recipe: Recipe, say: Say) -> dict[str, Any] | None:
    """The result of a finished run. Of any other, None; a recipe that does not fit is refused. Nothing is written."""
    if run.recipe is None:
        say(f"{run.folder} holds no run yet; it starts from the beginning")
        return None
    _refuse_another_recipe(run, recipe)
    if run.result is not None and _ends_as_before(run, recipe):
        say(f"{run.folder} is finished; this is its result")
        return run.result
    if (changed := _changed_environment(run.folder)) is not None:
        say(changed)
    return None


def checkpoint_to_resume(run: Standing, trainer: PreferenceTrainer, say: Say) -> str | None:
    """The newest whole checkpoint of a begun run. Without one it starts anew, and what it wrote is cleared away."""
    if run.recipe is None:
        return None
    trainer.accelerator.wait_for_everyone()  # all have read where the run stands; now it changes
    found = trainer.newest_checkpoint()
    if trainer.args.should_save:
        (run.folder / RESULT).unlink(missing_ok=True)  # no result while it runs
        clear_parts(run.folder)
        for name in RECORD if found is None else ():  # the same rows will be written again
            (run.folder / name).unlink(missing_ok=True)
        if found is None:
            shutil.rmtree(run.folder / CHECKPOINTS, ignore_errors=True)
    where = f"going on from {found}" if found else f"{run.folder} has no whole checkpoint; it starts from the beginning"
    say(where)
    return found


def _refuse_another_recipe(run: Standing, recipe: Recipe) -> None:
    before = run.recipe or {}
    if changed := differences(before, recipe):
        told = [_told(key, before, recipe) for key in changed[:5]]
        raise InputError(
            f"{run.folder} was begun with other values of {', '.join(told)}; resume it as it was "
            f"(gapo train {run.folder / RECIPE} --resume), or choose another train.output_dir"
        )


def _ends_as_before(run: Standing, recipe: Recipe) -> bool:
    """Whether the run is to end where it was to end when it began; a longer one goes on."""
    before = (run.recipe or {}).get("train", {})
    return all(before.get(key) == recipe["train"].get(key) for key in ("max_steps", "num_train_epochs"))


def _changed_environment(folder: Path) -> str | None:
    """What is not as it was when the run began, in a sentence: the same bits come from the same arithmetic only."""
    now = environment([], 0)
    before = _read_json(folder / "environment.json") or now
    pairs = [(key, before.get(key), now.get(key)) for key in SAME_MACHINE]
    pairs += [(key, before.get("packages", {}).get(key), now["packages"].get(key)) for key in SAME_PACKAGES]
    changed = [f"{key} {was} is now {here}" for key, was, here in pairs if was != here]
    if not changed:
        return None
    return f"{', '.join(changed)}: the run goes on, but not bit for bit as it would have"


def write_start(folder: Path, content: dict[str, Any]) -> None:
    with whole_file(folder / START) as part:
        part.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _told(key: str, before: Recipe, now: Recipe) -> str:
    section, _, name = key.partition(".")
    was, here = (recipe.get(section, {}).get(name) for recipe in (before, now))
    return f"{key} ({was!r}, now {here!r})"


def _numbered(folder: Path, number: int) -> Path:
    return folder.with_name(f"{folder.name}-{number}") if number > 1 else folder


def _next_numbered(folder: Path) -> Path:
    number = 2
    while _numbered(folder, number).exists():
        number += 1
    return _numbered(folder, number)


def _last_numbered(folder: Path) -> Path:
    number = 1
    while _numbered(folder, number + 1).exists():
        number += 1
    return _numbered(folder, number)


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _read_yaml(path: Path) -> Recipe | None:
    try:
        content = read_yaml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, NotYaml):
        return None
    sections = isinstance(content, dict) and all(isinstance(section, dict) for section in content.values())
    return content if sections else None
