"""What a page shows, as values: tables and figures by the names of columns. `gapo.report` draws them."""

from __future__ import annotations

from dataclasses import dataclass

# how values are written: percentages, differences of them, chosen rates, numbers, times, ratios, words, method names,
# numbers as somebody else wrote them, and what a model said
PERCENT, POINTS, SHARE, PLAIN = "percent", "points", "share", "plain"
SECONDS, RATIO, WORDS, METHOD, QUOTED = "seconds", "ratio", "words", "method", "quoted"
SAID = "said"


@dataclass(frozen=True)
class Column:
    """A column of a table: its key, what it is called, and how its values are written.

    Where the row also has `<key>_low` and `<key>_high`, the interval follows the value.
    """

    key: str
    head: str
    kind: str = PERCENT


@dataclass(frozen=True)
class Sheet:
    """A table of the page, a row a row."""

    table: str
    title: str
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Pivot:
    """A table of the page with one column for each value of `across`; the paper's figure stands beside ours.

    `absent`: what stands where a row has no value yet. Where there is no row nothing was planned.
    """

    table: str
    title: str
    rows: tuple[Column, ...]
    across: Column
    value: Column
    paper: str = "paper"
    absent: str | None = None


@dataclass(frozen=True)
class Curves:
    """Lines over `x`, one for each series with its name at the end, intervals as bands; one panel for each value."""

    name: str
    table: str
    title: str
    x: Column
    y: Column
    series: Column
    panels: Column | None = None


@dataclass(frozen=True)
class Dots:
    """A dot with its interval for each row, names at the left; one panel for each value."""

    name: str
    table: str
    title: str
    value: Column
    label: Column
    panels: Column | None = None
    log: bool = False  # values above zero that differ by orders of magnitude


@dataclass(frozen=True)
class Points:
    """One quantity against another, a named point for each row with its intervals."""

    name: str
    table: str
    title: str
    x: Column
    y: Column
    label: Column


@dataclass(frozen=True)
class Cloud:
    """Many small points, one for each row; a panel with its own axes for each series."""

    name: str
    table: str
    title: str
    x: Column
    y: Column
    series: Column | None = None


@dataclass(frozen=True)
class Histogram:
    """How often values occur; a step line for each series."""

    name: str
    table: str
    title: str
    value: Column
    series: Column | None = None


Figure = Curves | Dots | Points | Cloud | Histogram
Exhibit = Sheet | Pivot | Figure
