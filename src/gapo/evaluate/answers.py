"""A model's answers to a bench, in the files that AlpacaEval and Arena-Hard read, or as plain JSONL."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gapo.errors import DiskTrouble, InputError
from gapo.evaluate.questions import ALPACAEVAL, ARENA_HARD, Bench, Question, arena_text, rows_of
from gapo.pairs.files import bare_name, near_file
from gapo.storage import whole_file


@dataclass(frozen=True)
class Answers:
    """One answer for each question's id.

    `decoding` says how they were made; `tokens` how many tokens each has in the model's own count, where known, and
    `notes` what else is to be known of them: both are kept in the files.
    """

    model: str
    bench: str
    by_id: Mapping[str, str]
    decoding: Mapping[str, Any]
    path: Path | None
    tokens: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)


def baseline_answers(bench: Bench) -> Answers:
    """The answers of the bench's own reference model."""
    missing = [each for each in bench.questions if each.id not in bench.references]
    if missing:
        raise InputError(
            f"the bench {bench.name} has no reference answer to {len(missing)} of {len(bench.questions)} questions "
            f"(the first: {missing[0].id}); name a file of answers to compare with, or a --data-dir that has them"
        )
    return Answers(bench.baseline, bench.name, dict(bench.references), {}, None)


def read_answers(path: Path, bench: Bench) -> Answers:
    """The answers in a file, matched to the questions by id or by prompt; every question needs exactly one."""
    path = Path(path).expanduser()
    if not path.is_file():
        near = near_file(path)
        raise InputError(f"{path} does not exist; {f'did you mean {near!r}?' if near else 'check the path'}")
    found = found_answers(path, bench)
    missing = [each for each in bench.questions if each.id not in found]
    if missing:
        first = f"{missing[0].id} {_short(missing[0].prompt)!r}"
        raise InputError(
            f"{path} has no answer to {len(missing)} of the {len(bench.questions)} questions of {bench.name} "
            f"(the first: {first}); make them with gapo generate, or ask for fewer with --limit"
        )
    models = {row.model for row in found.values()}
    if len(models) > 1:
        raise InputError(f"{path} holds answers of several models ({', '.join(sorted(models))}); keep one a file")
    about = read_about(path)
    return Answers(
        model=models.pop() or str(about.get("model") or bare_name(path)),
        bench=bench.name,
        by_id={each.id: found[each.id].text for each in bench.questions},
        decoding=about.get("decoding") or {},
        path=path,
        tokens={name: row.tokens for name, row in found.items() if row.tokens is not None},
        notes=about.get("notes") or {},
    )


def write_answers(answers: Answers, bench: Bench, path: Path) -> None:
    """Write the bench's official form, whole or not at all, and how they were made beside it in <stem>.about.json."""
    missing = [each.id for each in bench.questions if each.id not in answers.by_id]
    if missing:
        raise InputError(f"{len(missing)} questions of {bench.name} have no answer (the first: {missing[0]})")
    rows = [_official_row(each, answers, bench) for each in bench.questions]
    if bench.name == ALPACAEVAL:
        text = json.dumps(rows, ensure_ascii=False, indent=1) + "\n"
    else:
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    try:
        with whole_file(about_path(path)) as part:  # first: an answer file is never without it
            part.write_text(json.dumps(_about(answers, bench), ensure_ascii=False, indent=1) + "\n", "utf-8")
        with whole_file(path) as part:
            part.write_text(text, "utf-8")
    except DiskTrouble:
        raise
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror or error}); choose another place") from None


def suffix_of(bench: Bench) -> str:
    """The suffix of the bench's official form."""
    return ".json" if bench.name == ALPACAEVAL else ".jsonl"


def about_path(path: Path) -> Path:
    path = Path(path)
    return path.with_name(f"{bare_name(path)}.about.json")


def read_about(path: Path) -> dict[str, Any]:
    """What is written beside an answer file, or nothing."""
    beside = about_path(path)
    if not beside.is_file():
        return {}
    try:
        content = json.loads(beside.read_text("utf-8"))
    except ValueError:
        raise InputError(f"{beside} is not JSON; remove it or write the answers again") from None
    return content if isinstance(content, dict) else {}


def _about(answers: Answers, bench: Bench) -> dict[str, Any]:
    about: dict[str, Any] = {
        "model": answers.model,
        "bench": bench.name,
        "bench_version": bench.version,
        "complete": bench.complete,
        "questions": len(bench.questions),
        "decoding": dict(answers.decoding),
    }
    return about | ({"notes": dict(answers.notes)} if answers.notes else {})


def _official_row(question: Question, answers: Answers, bench: Bench) -> dict[str, Any]:
    text = answers.by_id[question.id]
    if bench.name == ALPACAEVAL:
        return {
            "dataset": question.subset,
            "instruction": question.prompt,
            "output": text,
            "generator": answers.model,
        }
    if bench.name == ARENA_HARD:
        turn: dict[str, Any] = {"content": text}
        if question.id in answers.tokens:
            turn["token_len"] = answers.tokens[question.id]
        return {
            "question_id": question.id,
            "answer_id": _answer_id(answers.model, question.id, text),
            "model_id": answers.model,
            "choices": [{"index": 0, "turns": [turn]}],
            "tstamp": time.time(),
        }
    return {"id": question.id, "prompt": question.prompt, "output": text, "model": answers.model}


def _answer_id(*content: str) -> str:
    """22 characters, as long as the official ones, and the same for the same answer."""
    return hashlib.blake2b(json.dumps(content).encode(), digest_size=11).hexdigest()


@dataclass(frozen=True)
class AnswerRow:
    """One row of an answer file, whatever its form; `id` or `prompt` may be missing."""

    where: str
    text: str
    model: str
    id: str | None = None
    prompt: str | None = None
    tokens: int | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any], where: str) -> AnswerRow:
        if "choices" in row or "messages" in row:
            name = row.get("question_id") or row.get("uid")
            model = row.get("model_id") or row.get("model")
            return cls(where, arena_text(row, where), str(model or ""), str(name), tokens=_token_len(row))
        if not isinstance(row.get("output"), str):
            raise InputError(f"{where} has no answer; it needs a text under output (or Arena-Hard's choices)")
        prompt = next((row[key] for key in ("instruction", "prompt") if isinstance(row.get(key), str)), None)
        name = row.get("id")
        if name is None and prompt is None:
            raise InputError(f"{where} does not say what it answers; it needs an id, a prompt or an instruction")
        model = row.get("generator") or row.get("model") or ""
        return cls(where, row["output"], str(model), None if name is None else str(name), prompt)


def _token_len(row: Mapping[str, Any]) -> int | None:
    length = row["choices"][0]["turns"][0].get("token_len") if "choices" in row else None
    return length if isinstance(length, int) else None


def found_answers(path: Path, bench: Bench) -> dict[str, AnswerRow]:
    """The row of each question that has one. Rows of other questions are left out: a limit asks for fewer."""
    by_prompt = {key: each for each in bench.questions for key in _keys(each.prompt)}
    by_id = {each.id: each for each in bench.questions}
    found: dict[str, AnswerRow] = {}
    for row in (AnswerRow.of(content, where) for where, content in rows_of(path)):
        question = by_id.get(row.id) if row.id is not None else None
        if question is not None and row.prompt is not None and question.prompt.strip() != row.prompt.strip():
            raise InputError(
                f"{row.where} answers another question under the id {row.id!r} ({_short(row.prompt)!r}); "
                f"are these answers to {bench.name}?"
            )
        if question is None and row.prompt is not None:
            question = next((by_prompt[key] for key in _keys(row.prompt) if key in by_prompt), None)
        if question is None:
            continue
        if question.id in found:
            raise InputError(
                f"{path} answers {question.id} {_short(question.prompt)!r} twice ({found[question.id].where} and "
                f"{row.where}); remove one of them"
            )
        found[question.id] = row
    return found


def _keys(prompt: str) -> Iterator[str]:
    """As it is, then as some tools write it back."""
    yield prompt
    yield prompt.strip()


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 40 else f"{line[:37]}..."
