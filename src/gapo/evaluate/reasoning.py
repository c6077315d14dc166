"""Reasoning tasks by lm-eval (the extra `gapo[eval]`): from the Hub or from local files, with every condition named."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gapo.errors import InputError, did_you_mean
from gapo.evaluate.quantity import Quantity, as_json, share_of
from gapo.evaluate.subject import Subject
from gapo.evaluate.task_files import local_config
from gapo.pairs.hub import hub_as_it_is

EXTRA = "tasks such as {} are run by lm-eval, which is not installed: pip install 'gapo[eval]'"
SEED = 1234  # lm-eval's own, so that few-shot prompts are the ones of published numbers


@dataclass(frozen=True)
class TaskSettings:
    """How tasks are run; None leaves it to the task."""

    data_dir: Path | None = None
    num_fewshot: int | None = None
    limit: int | None = None
    chat_template: bool = False
    max_new_tokens: int | None = None
    batch_size: int = 8
    seed: int = SEED


def run_tasks(subject: Subject, names: Sequence[str], settings: TaskSettings) -> dict[str, Any]:
    """Every metric of every task with interval, versions and conditions, and the items behind it."""
    need_extra(names)
    if settings.chat_template and not subject.tokenizer.chat_template:
        raise InputError(f"{subject.name} has no chat template; leave --chat-template out")
    with _quiet(), hub_as_it_is():
        from lm_eval import __version__, simple_evaluate
        from lm_eval.models.huggingface import HFLM
        from lm_eval.tasks import TaskManager

        found = simple_evaluate(
            HFLM(pretrained=subject.model, tokenizer=subject.tokenizer, batch_size=settings.batch_size),
            tasks=[_task(name, settings) for name in names],
            task_manager=TaskManager(include_defaults=False),  # without one it indexes all tasks, for 9 s
            num_fewshot=settings.num_fewshot,
            limit=settings.limit,
            apply_chat_template=settings.chat_template,
            fewshot_as_multiturn=settings.chat_template,
            gen_kwargs={"max_gen_toks": settings.max_new_tokens} if settings.max_new_tokens else None,
            bootstrap_iters=1000,  # of metrics that are no means; a mean's standard error needs none
            random_seed=settings.seed,
            numpy_random_seed=settings.seed,
            torch_random_seed=settings.seed,
            fewshot_random_seed=settings.seed,
        )
    conditions = {key: getattr(settings, key) for key in ("limit", "chat_template", "max_new_tokens", "seed")}
    conditions["data"] = "the Hub" if settings.data_dir is None else "local files"
    results = {name: _task_result(name, found) for name in found["results"]}
    return {"lm_eval": __version__, **conditions, "tasks": results}


def need_extra(names: Sequence[str]) -> None:
    if importlib.util.find_spec("lm_eval") is None:
        raise InputError(EXTRA.format(" and ".join(names)))


def _task(name: str, settings: TaskSettings) -> Any:
    """The task with its data; one that cannot be had is named."""
    from lm_eval.tasks import TaskManager

    config = _config(name)
    if config is None:  # a group, or no task: only the whole index can tell, and takes its time
        manager = TaskManager()
        if name not in manager.all_tasks:
            raise InputError(f"lm-eval has no task {name!r}; {did_you_mean(name, manager.all_tasks)[:200]}")
        if settings.data_dir is not None:
            raise InputError(
                f"{name} is a group of tasks, and --data-dir serves single tasks; name the tasks themselves"
            )
        return _built(manager, name, name, "several data sets")
    if settings.data_dir is not None:
        config = local_config(config, settings.data_dir, settings.num_fewshot)
    manager = TaskManager(include_defaults=False)
    task = _built(manager, config, name, str(config["dataset_path"]))
    wanted = config.get("num_fewshot") if settings.num_fewshot is None else settings.num_fewshot
    if settings.data_dir is not None and wanted and (there := len(list(task.fewshot_docs()))) <= wanted:
        raise InputError(f"{name} needs more than {wanted} items for {wanted}-shot prompts and its file has {there}")
    return task


def _built(manager: Any, spec: Any, name: str, source: str) -> Any:
    try:
        loaded = manager.load([spec])
    except Exception as error:  # data sets, tasks and the Hub raise what they like
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"the data of {name} ({source}) cannot be read ({reason[:160]}); where the Hub cannot be reached, give "
            f"--data-dir DIR with {name}/test.jsonl and {name}/fewshot.jsonl"
        ) from None
    groups = loaded.get("groups") or {}
    return next(iter(groups.values())) if groups else next(iter(loaded["tasks"].values()))


def _config(name: str) -> dict[str, Any] | None:
    """lm-eval's own settings of a task; None where no file is named after it."""
    import lm_eval.tasks
    from lm_eval.tasks._yaml_loader import load_yaml

    for path in sorted(Path(lm_eval.tasks.__file__).parent.rglob(f"{name}.yaml")):
        if load_yaml(path, resolve_func=False).get("task") == name:
            return dict(load_yaml(path))
    return None


def _task_result(name: str, found: Mapping[str, Any]) -> dict[str, Any]:
    items = _items(found["samples"].get(name, ()))
    counts = found.get("n-samples", {}).get(name, {})
    metrics = {}
    for key, value in found["results"][name].items():
        metric, _, rest = key.partition(",")
        if not rest or metric.endswith("_stderr") or not isinstance(value, int | float | np.number):
            continue
        error = found["results"][name].get(f"{metric}_stderr,{rest}")
        metrics[key] = _metric(float(value), error, list(items.get(key, {}).values()), counts.get("effective"))
    n, of = counts.get("effective"), counts.get("original")
    return {
        "version": found["versions"].get(name),
        "num_fewshot": found["n-shot"].get(name),
        "n": n,
        "of": of,
        "complete": n == of,
        "metrics": metrics,
        "items": items,
    }


def _metric(value: float, error: Any, values: Sequence[float], n: int | None) -> dict[str, Any]:
    """With Wilson's interval where every item is right or wrong, else by lm-eval's standard error."""
    error = float(error) if isinstance(error, int | float | np.number) else None
    if values and set(values) <= {0.0, 1.0} and abs(np.mean(values) - value) < 1e-9:
        quantity = share_of(np.array(values))
    else:
        low, high = (None, None) if error is None else (value - 1.96 * error, value + 1.96 * error)
        quantity = Quantity(value, low, high, n or 0)
    return {**(as_json(quantity) or {}), "standard_error": error}


def _items(samples: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """For each metric the value of every item, named by its place and content."""
    found: dict[str, dict[str, float]] = {}
    for sample in samples:
        for metric in sample["metrics"]:
            value = sample[metric]
            if isinstance(value, bool | int | float | np.number):
                name = f"{sample['doc_id']}:{sample['doc_hash'][:12]}"
                found.setdefault(f"{metric},{sample['filter']}", {})[name] = float(value)
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    """lm-eval explains itself at length."""
    logger = logging.getLogger("lm_eval")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
