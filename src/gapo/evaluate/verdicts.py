"""What a judge said: a verdict for each game, and all games of a model against a reference."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gapo.errors import InputError, shown
from gapo.storage import whole_file

OK, TRUNCATED, EMPTY, MALFORMED, FAILED = "ok", "truncated", "empty", "malformed", "failed"
STATUSES = (OK, TRUNCATED, EMPTY, MALFORMED, FAILED)
JUDGING, VERDICTS = "judging.json", "verdicts.jsonl"


@dataclass(frozen=True)
class Reading:
    """What a judge's reply says. `preference`: P(the model's answer is better), None unless the status is OK."""

    preference: float | None
    status: str = OK
    weight: int = 1
    text: str = ""
    says: str = ""  # the model's name, as the server reports it
    by: str = ""  # what it was read from: "log-probs", "text", or "" where there was nothing to read


@dataclass(frozen=True)
class Verdict:
    """One game.

    `swapped`: the reference's answer was shown first. `weight`: 3 for a double arrow, else 1. `text`: the judge's own
    words. `key`: hash of the content (judge, prompt, question, both answers, order, options). `ours`, `theirs`:
    characters of the two answers.
    """

    id: str
    game: int
    swapped: bool
    preference: float | None
    weight: int
    status: str
    text: str
    key: str
    ours: int
    theirs: int
    subset: str


@dataclass(frozen=True)
class Judging:
    """All games, and under which conditions they were played. `judge_says`: the model name the server reported."""

    bench: str
    bench_version: str
    complete: bool
    model: str
    reference: str
    judge: str
    judge_says: str
    prompt: str
    decoding: Mapping[str, Any]
    judge_options: Mapping[str, Any]
    verdicts: tuple[Verdict, ...]

    @property
    def counts(self) -> dict[str, int]:
        """Games of each status, those that occur."""
        found = Counter(verdict.status for verdict in self.verdicts)
        return {status: found[status] for status in STATUSES if found[status]}


def write_judging(judging: Judging, folder: Path) -> None:
    """judging.json (the conditions) and verdicts.jsonl (a line a game), each whole or not at all."""
    conditions = asdict(judging)
    verdicts = conditions.pop("verdicts")
    with whole_file(folder / VERDICTS) as part:
        part.write_text("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in verdicts), encoding="utf-8")
    conditions |= {"games": len(verdicts), "counts": judging.counts}
    with whole_file(folder / JUDGING) as part:
        part.write_text(json.dumps(conditions, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _sound(verdict: Verdict, line: int) -> Verdict:
    """A game whose numbers are numbers: a preference of 7 would make a win rate above 1."""
    preference, status = verdict.preference, verdict.status
    given = isinstance(preference, int | float) and not isinstance(preference, bool) and 0 <= preference <= 1
    if status not in STATUSES:
        raise ValueError(f"{VERDICTS}:{line} has the status {shown(status)}")
    if not given and (preference is not None or status == OK):
        raise ValueError(f"{VERDICTS}:{line} has the preference {shown(preference)}")
    if not all(isinstance(number, int) for number in (verdict.weight, verdict.ours, verdict.theirs, verdict.game)):
        raise ValueError(f"{VERDICTS}:{line} has a weight, length or number of no number")
    return verdict


def read_judging(folder: Path) -> Judging:
    """What `write_judging` wrote."""
    try:
        conditions = json.loads((folder / JUDGING).read_text(encoding="utf-8"))
        with open(folder / VERDICTS, encoding="utf-8") as lines:
            verdicts = tuple(_sound(Verdict(**json.loads(line)), number) for number, line in enumerate(lines, 1))
        if lacking := [name for name in ("bench", "model", "reference") if not isinstance(conditions[name], str)]:
            raise ValueError(f"{JUDGING} has no {lacking[0]}")
        if not verdicts:
            raise ValueError(f"{VERDICTS} holds no game")
    except FileNotFoundError as error:
        missing = Path(error.filename).name
        raise InputError(f"{folder} holds no judging ({missing} is missing); `gapo judge` writes one") from None
    except (ValueError, TypeError, KeyError, OSError) as error:
        raise InputError(f"{folder} holds a judging that cannot be read ({error}); run `gapo judge` again") from None
    known = {name: conditions.get(name) for name in Judging.__dataclass_fields__ if name != "verdicts"}
    return Judging(**known, verdicts=verdicts)
