"""Every accepted input becomes pairs; each row that is left out is named with its reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gapo.errors import InputError
from gapo.pairs.pair import BadRow, PairSet, PreferencePair
from gapo.pairs.rows import MISSING_KEY, NEEDED_COLUMNS, parse_row
from gapo.pairs.sources import PairSource, open_source


def load_pairs(
    source: PairSource,
    *,
    split: str | None = None,
    limit: int | None = None,
    strict: bool = False,
    name: str | None = None,
) -> PairSet:
    """Pairs from a path, an embedded set ("courtesy:test"), a Hub id ("org/name:split"), a data set or a list of rows.

    Rows that are no pairs are left out and kept in `bad_rows`; `strict` makes the first of them an error.
    `limit` counts good pairs, so that a smoke run has as many as it asked for.
    """
    if limit is not None and limit < 1:
        raise InputError(f"limit must be 1 or more, not {limit}; leave it out to read all pairs")
    if isinstance(source, PairSet):
        return replace(source[:limit], name=name or source.name) if limit or name else source

    default_name, table = open_source(source, split)
    columns = table.columns
    if columns is not None and (wrong := _missing_columns(columns, table.label)):
        raise InputError(wrong)
    pairs: list[PreferencePair] = []
    bad_rows: list[BadRow] = []
    for row in table.rows:
        if not isinstance(row, BadRow) and columns is None and isinstance(row[1], Mapping):
            columns = tuple(row[1])  # only to say what was there, should no row be a pair
        parsed = row if isinstance(row, BadRow) else parse_row(row[1], row[0])
        if isinstance(parsed, BadRow):
            bad_rows.append(parsed)
        else:
            pairs.append(parsed)
        if len(pairs) == limit:
            break
    if not pairs:
        raise InputError(_nothing_left(table.label, columns or (), bad_rows))
    if strict and bad_rows:
        raise InputError(_first_of_many(bad_rows))
    return PairSet(tuple(pairs), name=name or default_name, bad_rows=tuple(bad_rows))


def describe_bad_rows(bad_rows: Iterable[BadRow]) -> list[str]:
    """One line for each reason, the most frequent first, with the first place to look."""
    bad_rows = list(bad_rows)
    first = {bad.reason: bad for bad in reversed(bad_rows)}
    counts = Counter(bad.reason for bad in bad_rows).most_common()
    return [f"{_rows(n)} left out: {reason} (first: {_place(first[reason])})" for reason, n in counts]


def _missing_columns(columns: Sequence[str], label: str) -> str:
    missing = " and ".join(repr(column) for column in NEEDED_COLUMNS if column not in columns)
    there = ", ".join(map(repr, columns))
    wrong = f"{label} has no column {missing} (its columns: {there}); rename the columns that hold the responses"
    return wrong if missing else ""


def _nothing_left(label: str, columns: Sequence[str], bad_rows: Sequence[BadRow]) -> str:
    if not bad_rows:
        return f"{label} is empty; a row has 'prompt', 'chosen' and 'rejected'"
    wrong = _missing_columns(columns, label) if all(bad.reason == MISSING_KEY for bad in bad_rows) else ""
    return wrong or f"{label} holds no usable pair: {'; '.join(describe_bad_rows(bad_rows))}"


def _first_of_many(bad_rows: Sequence[BadRow]) -> str:
    first, count = bad_rows[0], len(bad_rows)
    all_of_them = "it is the only such row" if count == 1 else f"it is the first of {count:,} such rows"
    return f"{first.source} is no pair: {first.reason} ({first.detail}); {all_of_them}: mend it, or load without strict"


def _place(bad: BadRow) -> str:
    return f"{bad.source}, {bad.detail}" if bad.detail else bad.source


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"
