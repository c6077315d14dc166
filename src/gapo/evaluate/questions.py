"""The questions of a benchmark, and the answers of its baseline: AlpacaEval, Arena-Hard v0.1, or any prompt file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gapo.errors import InputError, did_you_mean
from gapo.evaluate.official import ALPACA_REFERENCES, ARENA_BASELINE, ARENA_QUESTIONS, in_folder, official_file
from gapo.pairs.files import near_file
from gapo.pairs.opened import is_gz
from gapo.pairs.pair import BadRow
from gapo.pairs.readers import READERS
from gapo.pairs.table import Row, one_line

ALPACAEVAL = "alpacaeval"
ARENA_HARD = "arena-hard"
PROMPT_KINDS = ("jsonl", "json", "csv", "parquet", "txt")
PROMPT_COLUMNS = ("prompt", "instruction", "turns")
ID_COLUMNS = ("id", "question_id", "uid")
SUBSET_COLUMNS = ("subset", "dataset", "cluster", "category")


@dataclass(frozen=True)
class Question:
    """One prompt; `subset` is AlpacaEval's data set, Arena-Hard's cluster, or what a file calls it."""

    id: str
    prompt: str
    subset: str = ""


@dataclass(frozen=True)
class Bench:
    """Questions in order, and the baseline's answers to them.

    `baseline` is the reference model's name ("" if there is none), `references` its answer for each id, `version` a
    digest of the questions; `complete` says that these are all the official questions and nothing else.
    """

    name: str
    questions: tuple[Question, ...]
    baseline: str
    references: Mapping[str, str]
    version: str
    complete: bool


_OFFICIAL = {  # `_fingerprint` of the official questions
    ALPACAEVAL: "ec07fdd16ba924cb3c06bf1286235cb6073f091eb5fff1720db310c29bf6c868",
    ARENA_HARD: "1d0f40e6dc69acd71cf305f0e85535219e4d7846c8d169df0080519ac4611cdf",
}


def bench_named(name: str, *, data_dir: Path | None = None, limit: int | None = None) -> Bench:
    """`alpacaeval`, `arena-hard`, or a file with a column `prompt` or `instruction` (.txt: a prompt a line).

    Official files are looked for in `data_dir` and then fetched once from the Hub. `limit` keeps the first questions.
    """
    if limit is not None and limit < 1:
        raise InputError(f"a limit must be 1 or more, not {limit}")
    if name == ALPACAEVAL:
        bench = _alpacaeval(data_dir)
    elif name == ARENA_HARD:
        bench = _arena_hard(data_dir)
    else:
        bench = _from_file(_prompt_file(name))
    return bench if limit is None else first_questions(bench, limit)


def first_questions(bench: Bench, limit: int) -> Bench:
    """The same bench with its first questions only, no longer complete if any is lost."""
    if limit >= len(bench.questions):
        return bench
    kept = bench.questions[:limit]
    references = {each.id: bench.references[each.id] for each in kept if each.id in bench.references}
    return replace(bench, questions=kept, references=references, version=version_of(kept), complete=False)


def version_of(questions: Iterable[Question]) -> str:
    """16 hex digits that change with any question or id; the order in a file does not matter."""
    content = json.dumps(sorted([each.id, each.prompt] for each in questions), separators=(",", ":"))
    return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()


def rows_of(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a file as (where, object); a row that cannot be read is an error here."""
    kind = (Path(path.stem).suffix if is_gz(path) else path.suffix).lower().removeprefix(".")
    if kind not in PROMPT_KINDS or (is_gz(path) and kind in ("parquet", "txt")):
        kinds = ", ".join(f".{each}" for each in PROMPT_KINDS)
        raise InputError(f"{path} is of an unknown kind; use one of {kinds}")
    for row in _raw_rows(path, kind):
        if isinstance(row, BadRow):
            raise InputError(f"{row.source} cannot be read: {row.reason} ({row.detail}); mend that row")
        where, content = row
        if not isinstance(content, dict):
            raise InputError(f"{where} is no object; each row needs named columns such as prompt")
        yield where, content


def _raw_rows(path: Path, kind: str) -> Iterable[Row]:
    if kind == "txt":
        return _text_rows(path)
    if kind == "parquet":
        return _parquet_rows(path)  # the reader of pairs leaves out every column that pairs do not have
    return READERS[kind](path, None).rows


def _text_rows(path: Path) -> Iterator[Row]:
    try:
        lines = path.read_text("utf-8-sig").split("\n")  # not splitlines: a prompt may hold other separators
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield f"{path.name}:{number}", {"prompt": line.strip()}


def _parquet_rows(path: Path) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows = pq.read_table(path).to_pylist()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a whole parquet file ({one_line(error)}); write or copy it again") from None
    for number, row in enumerate(rows, start=1):
        yield f"{path.name}:{number}", row


def _alpacaeval(data_dir: Path | None) -> Bench:
    path = official_file(ALPACA_REFERENCES, data_dir)
    questions, outputs, names = [], {}, set()
    for place, (where, row) in enumerate(rows_of(path)):
        question = Question(str(place), _prompt_of(row, where), str(row.get("dataset") or ""))
        questions.append(question)
        names.add(str(row.get("generator") or ""))
        if isinstance(row.get("output"), str):
            outputs[question.id] = row["output"]
    if len(names) > 1:
        raise InputError(f"{path} holds answers of several models ({', '.join(sorted(names))}); give those of one")
    return _checked(ALPACAEVAL, questions, path, names.pop() if names else "", outputs)


def _arena_hard(data_dir: Path | None) -> Bench:
    path = official_file(ARENA_QUESTIONS, data_dir)
    questions = [_question(row, where, place) for place, (where, row) in enumerate(rows_of(path))]
    answers = in_folder(ARENA_BASELINE, data_dir)
    if answers is None and in_folder(ARENA_QUESTIONS, data_dir) is None:
        # a folder with the questions alone is enough to answer them: the judge says so when it needs the baseline
        answers = official_file(ARENA_BASELINE, data_dir)
    references = {} if answers is None else dict(_arena_answers(answers))
    return _checked(ARENA_HARD, questions, path, "gpt-4-0314", references)


def _arena_answers(path: Path) -> Iterator[tuple[str, str]]:
    for where, row in rows_of(path):
        yield str(row.get("question_id") or row.get("uid")), arena_text(row, where)


def arena_text(row: Mapping[str, Any], where: str) -> str:
    """The answer in a row of Arena-Hard's model_answer, as v0.1 wrote it (choices) or as it is kept now (messages)."""
    try:
        if "choices" in row:
            return str(row["choices"][0]["turns"][0]["content"])
        content = row["messages"][-1]["content"]
        return str(content["answer"] if isinstance(content, Mapping) else content)
    except (KeyError, IndexError, TypeError):
        raise InputError(f"{where} is no answer of Arena-Hard; it needs choices[0].turns[0].content") from None


def _from_file(path: Path) -> Bench:
    questions = [_question(row, where, place) for place, (where, row) in enumerate(rows_of(path))]
    return _checked(path.name, questions, path, "", {})


def _question(row: Mapping[str, Any], where: str, place: int) -> Question:
    name = next((row[key] for key in ID_COLUMNS if row.get(key) not in (None, "")), place)
    subset = next((row[key] for key in SUBSET_COLUMNS if isinstance(row.get(key), str)), "")
    return Question(str(name), _prompt_of(row, where), subset)


def _prompt_of(row: Mapping[str, Any], where: str) -> str:
    """The text of the one user turn."""
    key = next((name for name in PROMPT_COLUMNS if row.get(name) is not None), None)
    if key is None:
        found = ", ".join(map(str, row)) or "nothing"
        raise InputError(f"{where} has no prompt; name the column prompt or instruction (it has {found})")
    prompt = row[key]
    if isinstance(prompt, list):  # messages, or Arena-Hard's turns
        turns = [turn.get("content") for turn in prompt if isinstance(turn, Mapping)]
        if len(turns) != 1 or len(prompt) != 1:
            raise InputError(f"{where} has a conversation of {len(prompt)} turns; a question is one turn of the user")
        prompt = turns[0]
    if not isinstance(prompt, str) or not prompt.strip():
        raise InputError(f"{where} has an empty prompt; fill it or remove the row")
    try:
        prompt.encode()  # a lone surrogate stops every tokenizer later
    except UnicodeEncodeError:
        raise InputError(f"{where} has a prompt that is not UTF-8; mend that row") from None
    return prompt


def _checked(name: str, questions: list[Question], path: Path, baseline: str, references: Mapping[str, str]) -> Bench:
    if not questions:
        raise InputError(f"{path} holds no prompts; write one a line, or rows with a column prompt or instruction")
    ids: dict[str, int] = {}
    prompts: dict[str, str] = {}
    for place, each in enumerate(questions, start=1):
        if each.id in ids:
            raise InputError(f"{path} has the id {each.id!r} in rows {ids[each.id]} and {place}; make ids unique")
        if each.prompt in prompts:
            raise InputError(f"{path} asks the same in {prompts[each.prompt]!r} and {each.id!r}; remove one of them")
        ids[each.id], prompts[each.prompt] = place, each.id
    kept = {each.id: references[each.id] for each in questions if each.id in references}
    complete = _OFFICIAL.get(name) == _fingerprint(questions)
    return Bench(name, tuple(questions), baseline, kept, version_of(questions), complete)


def _fingerprint(questions: Iterable[Question]) -> str:
    """Of ids and texts, whatever the order and the white space: what the official set is known by."""
    texts = sorted([each.id, " ".join(each.prompt.split())] for each in questions)
    return hashlib.sha256(json.dumps(texts, separators=(",", ":")).encode()).hexdigest()


def _prompt_file(name: str) -> Path:
    path = Path(name).expanduser()
    if path.is_file():
        return path
    if path.suffix or "/" in name:
        near = near_file(path)
        raise InputError(f"{path} does not exist; {f'did you mean {near!r}?' if near else 'check the path'}")
    raise InputError(
        f"unknown bench {name!r}; {did_you_mean(name, (ALPACAEVAL, ARENA_HARD))} (or give a file of prompts)"
    )
