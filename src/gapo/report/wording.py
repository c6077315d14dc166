"""Numbers in words and figures, the same way all over the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan

from gapo.report.statistics import Interval

NARROW = "\u00a0"  # a number and its unit stay on one line
MINUS = "\u2212"
NONE = "\u2013"


def plain(value: float | None, digits: int = 4) -> str:
    """A number to `digits` significant places."""
    if value is None or isnan(value):
        return NONE
    whole = float(value).is_integer() and abs(value) < 1e6
    return (f"{value:.0f}" if whole else f"{value:.{digits}g}").replace("-", MINUS)


def percent(share: float | None) -> str:
    """A share of one as a percentage."""
    return NONE if share is None or isnan(share) else f"{100 * share:.1f}{NARROW}%".replace("-", MINUS)


def rounded_percent(share: float) -> str:
    """A chosen rate, such as 0.2: no decimals that nobody asked for."""
    return f"{100 * share:.3g}{NARROW}%"


def points(change: float | None) -> str:
    """A difference of two shares, in percentage points, with its sign."""
    return NONE if change is None else f"{signed(100 * change)}{NARROW}points"


def signed(value: float) -> str:
    """One decimal and a sign; zero has none."""
    text = f"{value:+.1f}".replace("-", MINUS)
    return text[1:] if float(f"{value:.1f}") == 0 else text


def percent_interval(interval: Interval | None) -> str:
    """An interval of a share."""
    return NONE if interval is None else f"{_tenth(interval.low)} to {_tenth(interval.high)}{NARROW}%"


def points_interval(interval: Interval | None) -> str:
    """An interval of a difference of shares."""
    return NONE if interval is None else f"{signed(100 * interval.low)} to {signed(100 * interval.high)}"


def duration(seconds: float | None) -> str:
    """Seconds as a person says them."""
    if seconds is None:
        return NONE
    if seconds < 120:
        return f"{seconds:.3g}{NARROW}s" if seconds < 100 else f"{seconds:.0f}{NARROW}s"
    minutes = round(seconds / 60)
    return f"{minutes}{NARROW}min" if minutes < 120 else f"{minutes // 60}{NARROW}h {minutes % 60}{NARROW}min"


def counted(count: int, thing: str) -> str:
    """`1 step`, `2,000 steps`."""
    return f"{count:,} {thing}" + ("" if count == 1 else "s")


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def flattened(value: object, path: str = "") -> dict[str, str]:
    """Nested sections as `section.key: value`, for tables."""
    if isinstance(value, Mapping) and value:
        parts = (flattened(inner, f"{path}.{key}" if path else str(key)) for key, inner in value.items())
        return {name: text for part in parts for name, text in part.items()}
    if isinstance(value, list | tuple):
        return {path: ", ".join(str(item) for item in value)}
    return {path: NONE if value is None or value == {} else str(value)}


def _tenth(share: float) -> str:
    return f"{100 * share:.1f}".replace("-", MINUS)
