"""Rows of mutants, and the page that tells their shares."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from mutation.operators import Mutant, mutants
from mutation.targets import RESULTS, TESTS, source_of
from mutation.trials import KILLED, SURVIVED, TIMED_OUT

Key = tuple[str, str, str, int]
METHOD = """\
A mutant is the module with one small wrong: an operator, a number, a condition, a name's twin (`chosen`, `rejected`), a
dropped statement (`tests/mutation/operators.py`). Each runs against those tests of its module
(`tests/mutation/targets.py`) that run its statement, until one fails; of a test with many slow cases some are run, and
a statement that no test runs survives. One that takes three times as long as it should, and 10 s more, counts as
noticed. Where fewer were tried than there are, they were drawn with a fixed seed (`--sample`). After tests were added,
survivors and changed lines were tried again (`--survivors`), the rest was not. Every mutant with its verdict and the
test that noticed it is in `mutants.csv`; survivors that make no difference are listed in
`tests/mutation/equivalent.csv`."""
EQUIVALENT = Path(__file__).with_name("equivalent.csv")


@dataclass(frozen=True)
class Row:
    """A mutant and what became of it. Its key has no line number: it stays the same when lines move."""

    module: str
    code: str
    change: str
    nth: int  # of the same change in the same words
    line: int
    kind: str
    verdict: str
    by: str

    @property
    def key(self) -> Key:
        return self.module, self.code, self.change, self.nth


def keyed(module: str, source: str) -> Iterator[tuple[Key, Mutant]]:
    lines, seen = source.splitlines(), Counter[tuple[str, str]]()
    for mutant in mutants(source):
        code = lines[mutant.line - 1].strip()
        seen[code, mutant.change] += 1
        yield (module, code, mutant.change, seen[code, mutant.change]), mutant


def read() -> dict[Key, Row]:
    path = RESULTS / "mutants.csv"
    if not path.exists():
        return {}
    with open(path, newline="", encoding="utf-8") as lines:
        rows = [Row(**row | {"nth": int(row["nth"]), "line": int(row["line"])}) for row in csv.DictReader(lines)]
    return {row.key: row for row in rows}


def equivalents() -> dict[Key, str]:
    """Mutants that make no difference, judged by hand, with the reason."""
    with open(EQUIVALENT, newline="", encoding="utf-8") as lines:
        return {(r["module"], r["code"], r["change"], int(r["nth"])): r["reason"] for r in csv.DictReader(lines)}


def write(rows: dict[Key, Row]) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    ordered = [row for module in TESTS for row in rows.values() if row.module == module]
    with open(RESULTS / "mutants.csv", "w", newline="", encoding="utf-8") as out:
        table = csv.DictWriter(out, [field.name for field in fields(Row)], lineterminator="\n")
        table.writeheader()
        table.writerows(asdict(row) for row in ordered)
    (RESULTS / "README.md").write_text(page(ordered), encoding="utf-8")


def page(rows: list[Row]) -> str:
    same = equivalents()
    total = Counter(row.verdict for row in rows)
    told = [row for row in rows if row.verdict == SURVIVED and row.key in same]
    noticed = total[KILLED] + total[TIMED_OUT]
    left = len(rows) - len(told)
    lines = [
        "# Mutation check",
        "",
        f"The tests notice **{noticed} of {len(rows)} mutants, {noticed / len(rows):.1%}**; without the "
        f"{len(told)} survivors judged to make no difference, {noticed / left:.1%}.",
        "",
        METHOD,
        "",
        "    PYTHONPATH=tests python -m mutation.run",
        "",
        "| module | there are | tried | killed | timed out | survived | noticed |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    there_are = {module: sum(1 for _ in mutants(source_of(module).read_text())) for module in TESTS}
    for module in TESTS:
        found = Counter(row.verdict for row in rows if row.module == module)
        if found:
            lines.append(_line(f"`{module}`", there_are[module], found))
    lines += [_line("all", sum(there_are.values()), total), "", "## Survivors", ""]
    for row in rows:
        if row.verdict == SURVIVED:
            reason = f" No difference: {same[row.key]}." if row.key in same else ""
            lines.append(f"- `{row.module}` line {row.line}, `{row.change}`.{reason}")
    return "\n".join(lines) + "\n"


def _line(name: str, there_are: int, found: Counter[str]) -> str:
    count = found.total()
    numbers = (there_are, count, found[KILLED], found[TIMED_OUT], found[SURVIVED])
    return f"| {name} | {' | '.join(map(str, numbers))} | {1 - found[SURVIVED] / count:.1%} |"
