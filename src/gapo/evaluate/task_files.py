"""A task of lm-eval that reads local files in place of the Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gapo.errors import InputError

KINDS = {"jsonl": "json", "json": "json", "parquet": "parquet", "csv": "csv"}
SPLITS = ("training_split", "validation_split", "test_split", "fewshot_split")


def local_config(config: dict[str, Any], data_dir: Path, num_fewshot: int | None = None) -> dict[str, Any]:
    """The task's settings with the files of `data_dir/<task>` (or of `data_dir`) for its splits.

    A file is named after its split, or `fewshot` for the one that few-shot items are drawn from. A split without a file
    is left out; the one that is scored, and few-shot items where they are asked for, must be there.
    """
    task = config["task"]
    folder = next((one for one in (data_dir / task, data_dir) if _file(one, _scored(config))), None)
    if folder is None:
        raise InputError(
            f"there is no file {task}/{_scored(config)}.jsonl in {data_dir}; --data-dir holds a folder for each task "
            f"with {_scored(config)}.jsonl (.gz, .json, .csv, .parquet) and, for few-shot prompts, fewshot.jsonl"
        )
    found = {
        key: _file(folder, config[key], "fewshot" if key != "test_split" else None) for key in SPLITS if config.get(key)
    }
    there = {key: path for key, path in found.items() if path is not None and not _lends(key, path)}
    shots = config.get("num_fewshot") if num_fewshot is None else num_fewshot
    if shots and not ({"training_split", "fewshot_split", "validation_split"} & set(there)):
        raise InputError(
            f"{folder} has no file fewshot.jsonl to draw {shots} few-shot items from; add it, or --num-fewshot 0"
        )
    kinds = {KINDS[_kind(path)] for path in there.values()}
    if len(kinds) > 1:
        raise InputError(f"the files in {folder} are of different kinds; make all of them JSONL, CSV or Parquet")
    files = {config[key]: str(path) for key, path in there.items()}
    left_out = {key: None for key in SPLITS if key in config and key not in there}
    local = {"dataset_path": kinds.pop(), "dataset_name": None, "dataset_kwargs": {"data_files": files}}
    return {**config, **left_out, **local}


def _scored(config: dict[str, Any]) -> str:
    """The split that counts: the test items, or the validation items of a task without any."""
    return str(config.get("test_split") or config.get("validation_split") or config.get("training_split"))


def _lends(key: str, path: Path) -> bool:
    """Whether a validation split would be read from the few-shot items: they are no validation."""
    return key == "validation_split" and path.name.startswith("fewshot.")


def _file(folder: Path, *names: str | None) -> Path | None:
    for name in filter(None, names):
        for kind in KINDS:
            for ending in (kind, f"{kind}.gz"):
                if (path := folder / f"{name}.{ending}").is_file():
                    return path.resolve()
    return None


def _kind(path: Path) -> str:
    return path.name.removesuffix(".gz").rpartition(".")[2]
