"""The official files of benchmarks: in a folder of the user's, or on the Hub."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gapo.errors import InputError
from gapo.pairs.hub import hub_as_it_is
from gapo.pairs.table import one_line


@dataclass(frozen=True)
class Source:
    """Where an official file is: the names it has in folders of people's own, and its place on the Hub."""

    names: tuple[str, ...]
    repo: str
    file: str


ALPACA_REFERENCES = Source(
    (
        "alpaca_eval_gpt4_baseline.json",
        "reference_outputs.json.gz",
        "reference_outputs.json",
        "alpacaeval2/reference_outputs.json.gz",
        "alpacaeval2/alpaca_eval_gpt4_baseline.json",
    ),
    "tatsu-lab/alpaca_eval",
    "alpaca_eval_gpt4_baseline.json",
)
ARENA_QUESTIONS = Source(
    (
        "question.jsonl",
        "questions.jsonl",
        "questions.jsonl.gz",
        "arena_hard/questions.jsonl.gz",
        "arena-hard-v0.1/question.jsonl",
        "data/arena-hard-v0.1/question.jsonl",
    ),
    "lmarena-ai/arena-hard-auto",
    "data/arena-hard-v0.1/question.jsonl",
)
ARENA_BASELINE = Source(
    (
        "model_answer/gpt-4-0314.jsonl",
        "gpt-4-0314.jsonl",
        "baseline_gpt-4-0314.jsonl.gz",
        "arena_hard/baseline_gpt-4-0314.jsonl.gz",
        "arena-hard-v0.1/model_answer/gpt-4-0314.jsonl",
        "data/arena-hard-v0.1/model_answer/gpt-4-0314.jsonl",
    ),
    "lmarena-ai/arena-hard-auto",
    "data/arena-hard-v0.1/model_answer/gpt-4-0314.jsonl",
)


def official_file(source: Source, data_dir: Path | None) -> Path:
    return in_folder(source, data_dir) or _from_hub(source, data_dir)


def in_folder(source: Source, data_dir: Path | None) -> Path | None:
    if data_dir is None:
        return None
    folder = Path(data_dir).expanduser()
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}; --data-dir names one with the official files")
    return next((folder / name for name in source.names if (folder / name).is_file()), None)


def _from_hub(source: Source, data_dir: Path | None) -> Path:
    from huggingface_hub import hf_hub_download

    try:
        with hub_as_it_is():
            return Path(hf_hub_download(source.repo, source.file, repo_type="dataset"))
    except Exception as error:  # the Hub's client has a dozen ways to say that it cannot be reached
        where = f"not in {data_dir}" if data_dir else "no --data-dir is given"
        raise InputError(
            f"{Path(source.file).name} of {source.repo} is needed: {where}, and the Hub does not give it "
            f"({one_line(error)}); fetch it where there is a network and name its folder with --data-dir"
        ) from None
