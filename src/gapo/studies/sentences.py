"""Numbers in sentences: what was found, said from the numbers and no further than they go."""

from __future__ import annotations

from collections.abc import Sequence

from gapo.studies.names import method_name
from gapo.studies.rows import Row, Rows, first, number
from gapo.studies.seeds import Estimate

MINUS = "\u2212"
NONE = "\u2013"


def percent(share: float | None) -> str:
    return NONE if share is None else f"{100 * share:.1f} %".replace("-", MINUS)


def points(change: float | None) -> str:
    """A difference of two shares in percentage points, with its sign."""
    if change is None:
        return NONE
    text = f"{100 * change:+.1f}"
    return "0.0" if float(text) == 0 else text.replace("-", MINUS)


def plain(value: float | None, digits: int = 3) -> str:
    if value is None:
        return NONE
    whole = float(value).is_integer() and abs(value) < 1e6
    return (f"{value:.0f}" if whole else f"{value:.{digits}g}").replace("-", MINUS)


def interval(found: Estimate) -> str:
    """The interval of a difference of shares; a single seed has none."""
    if found.low is None:
        return "one seed, no interval"
    return f"95 % interval {points(found.low)} to {points(found.high)}"


def compared(ours: str, theirs: str, found: Estimate | None, what: str) -> str:
    """One sentence about a paired difference."""
    one, other = method_name(ours), method_name(theirs)
    if found is None:
        return f"{one} and {other} were not measured on the same seeds."
    difference = f"{points(found.mean)} points, {interval(found)}"
    if not found.clear:
        return f"{one} and {other} cannot be told apart in {what} ({difference})."
    return f"{one} is {'above' if found.mean > 0 else 'below'} {other} in {what} ({difference})."


def ranking(rows: Rows, key: str, what: str, label: str = "method") -> str:
    """The best and the worst of a table, in a sentence."""
    known = [row for row in rows if number(row.get(key)) is not None]
    if not known:
        return f"{_capital(what)} was not measured."
    best, worst = max(known, key=lambda row: row[key]), min(known, key=lambda row: row[key])
    if best is worst:
        return f"{_name(best, label)} has {percent(best[key])} in {what}."
    return (
        f"{_capital(what)} is highest for {_name(best, label)} ({percent(best[key])}) "
        f"and lowest for {_name(worst, label)} ({percent(worst[key])})."
    )


def cell(rows: Rows, key: str, **values: object) -> float | None:
    """One number of a table."""
    row = first(rows, **values)
    return number(row.get(key)) if row is not None else None


def kept_as(row: Row | None, key: str) -> Estimate | None:
    """An estimate as a table keeps it."""
    if row is None or number(row.get(key)) is None:
        return None
    low, high = number(row.get(f"{key}_low")), number(row.get(f"{key}_high"))
    return Estimate(float(row[key]), low, high, int(row.get("seeds", 1)))


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _capital(words: str) -> str:
    return words[0].upper() + words[1:]


def _name(row: Row, label: str) -> str:
    return method_name(str(row[label]))
