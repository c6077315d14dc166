"""annotations.json of the alpaca_eval package, as a judging."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gapo.errors import InputError
from gapo.evaluate.conditions import CONDITIONS
from gapo.evaluate.questions import ALPACAEVAL, Question, bench_named, version_of
from gapo.evaluate.verdicts import FAILED, OK, Judging, Verdict

OFFICIAL_ANNOTATOR = "weighted_alpaca_eval_gpt4_turbo"
NEEDED = ("instruction", "output_1", "output_2", "generator_1", "generator_2", "preference")


def read_annotations(path: Path, data_dir: Path | None = None) -> Judging:
    """Output 1 is the reference's and output 2 the model's; a preference runs from 1 to 2, and 0 is a tie.

    Questions get their place in AlpacaEval's list by their text. Where the list cannot be had, as many rows as it has
    are taken to be in its order, and no score bears the official name.
    """
    rows = _rows(path)
    questions, complete, bench = _questions(rows, path, data_dir)
    annotator = _only(rows, "annotator", path) if "annotator" in rows[0] else ""
    official = annotator == OFFICIAL_ANNOTATOR
    rules = CONDITIONS[ALPACAEVAL]
    return Judging(
        bench=bench,
        bench_version=version_of(questions),
        complete=complete,
        model=_only(rows, "generator_2", path),
        reference=_only(rows, "generator_1", path),
        judge=rules.judge if official else annotator or "unknown",
        judge_says=rules.judge if official else "",
        prompt=rules.prompt if official else f"{annotator or 'unknown'}@alpaca_eval",
        decoding={},
        judge_options={"annotations": path.name, "annotator": annotator},
        verdicts=tuple(_verdict(row, each, path) for row, each in zip(rows, questions, strict=True)),
    )


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        rows = json.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise InputError(f"{path} cannot be read as JSON ({error}); give annotations.json of alpaca_eval") from None
    if not isinstance(rows, list) or not rows:
        raise InputError(f"{path} is no list of annotations; give annotations.json of alpaca_eval")
    for place, row in enumerate(rows, start=1):
        lacking = [name for name in NEEDED if not isinstance(row, Mapping) or name not in row]
        if lacking:
            raise InputError(f"{path} row {place} has no {lacking[0]}; give annotations.json of alpaca_eval")
    return rows


def _only(rows: Sequence[Mapping[str, Any]], column: str, path: Path) -> str:
    found = sorted({str(row.get(column)) for row in rows})
    if len(found) > 1:
        raise InputError(f"{path} has several values of {column} ({', '.join(found[:3])}); keep the rows of one")
    return found[0]


def _questions(
    rows: Sequence[Mapping[str, Any]], path: Path, data_dir: Path | None
) -> tuple[list[Question], bool, str]:
    """The question of every row, whether they are all the official ones, and the name of their bench."""
    plain = [Question(str(i), str(row["instruction"]), str(row.get("dataset") or "")) for i, row in enumerate(rows)]
    if len({each.prompt for each in plain}) < len(plain):
        raise InputError(f"{path} judges an instruction twice; keep one row for each")
    try:
        bench = bench_named(ALPACAEVAL, data_dir=data_dir)
    except InputError:  # offline: what has the list's length is taken to be in its order
        return plain, False, ALPACAEVAL if len(plain) == CONDITIONS[ALPACAEVAL].questions else path.name
    known = {each.prompt: each for each in bench.questions}
    if not all(each.prompt in known for each in plain):
        return plain, False, path.name  # the package also judges other instructions
    return [known[each.prompt] for each in plain], bench.complete and len(plain) == len(known), ALPACAEVAL


def _verdict(row: Mapping[str, Any], question: Question, path: Path) -> Verdict:
    preference = _preference(row["preference"], f"{path} question {question.id}")
    raw = row.get("raw_completion")
    return Verdict(
        id=question.id,
        game=0,
        swapped=False,
        preference=preference,
        weight=1,
        status=FAILED if preference is None else OK,
        text=raw if isinstance(raw, str) else json.dumps(raw) if raw is not None else "",
        key="",
        ours=len(str(row["output_2"])),
        theirs=len(str(row["output_1"])),
        subset=question.subset,
    )


def _preference(given: Any, where: str) -> float | None:
    """P(the model's answer is better): 1 is a loss, 2 a win, 0 and 1.5 a tie; nothing where the judge gave none."""
    if given is None or (isinstance(given, float) and math.isnan(given)):
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or (given != 0 and not 1 <= given <= 2):
        raise InputError(f"{where} has the preference {given!r}; it must be 0 or between 1 and 2")
    return 0.5 if given == 0 else given - 1.0
