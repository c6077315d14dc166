"""Every accepted input becomes pairs; each row that is left out is named with its reason."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from gapo.errors import LONGEST_NAME, InputError
from gapo.pairs.pair import BadRow, PairSet
from gapo.pairs.rows import MISSING_KEY, NEEDED_COLUMNS
from gapo.pairs.sources import PairSource, open_source
from gapo.pairs.store import CannotKeep, read_pairs

MOST_COLUMNS = 8  # that a sentence names

logger = logging.getLogger("gapo")


def load_pairs(
    source: PairSource,
    *,
    split: str | None = None,
    limit: int | None = None,
    strict: bool = False,
    name: str | None = None,
    cache: str | bool = "auto",
) -> PairSet:
    """Pairs from a path, an embedded set ("courtesy:test"), a Hub id ("org/name:split"), a data set or a list of rows.

    Rows that are no pairs are left out and kept in `bad_rows`; `strict` makes the first of them an error.
    `limit` counts good pairs, so that a smoke run has as many as it asked for. Files and data sets of many pairs are
    read row by row into a store in the cache and stay on disk (`cache`: "auto"; True: also few pairs; False: none).
    """
    if limit is not None and limit < 1:
        raise InputError(f"limit must be 1 or more, not {limit}; leave it out to read all pairs")
    if isinstance(source, PairSet):
        return replace(source[:limit], name=name or source.name) if limit or name else source

    default_name, table = open_source(source, split)
    if table.columns is not None and (wrong := _missing_columns(table.columns, table.label)):
        raise InputError(wrong)
    try:
        found = read_pairs(table, limit, cache)
    except CannotKeep as error:
        logger.warning("%s is read into memory: the cache cannot be written (%s)", table.label, error)
        found = read_pairs(open_source(source, split)[1], limit, False)
    if not len(found.pairs):
        raise InputError(_nothing_left(table.label, found.columns, found.bad_rows))
    if strict and len(found.bad_rows):
        raise InputError(_first_of_many(found.bad_rows))
    return PairSet(found.pairs, name=name or default_name, bad_rows=found.bad_rows)


def describe_bad_rows(bad_rows: Iterable[BadRow]) -> list[str]:
    """One line for each reason, the most frequent first, with the first place to look."""
    first: dict[str, BadRow] = {}
    counts: Counter[str] = Counter()
    for bad in bad_rows:
        first.setdefault(bad.reason, bad)
        counts[bad.reason] += 1
    return [f"{_rows(n)} left out: {reason} (first: {_place(first[reason])})" for reason, n in counts.most_common()]


def _missing_columns(columns: Sequence[str], label: str) -> str:
    missing = " and ".join(repr(column) for column in NEEDED_COLUMNS if column not in columns)
    names = [repr(name[:LONGEST_NAME]) for name in columns[:MOST_COLUMNS]]
    there = ", ".join([*names, *(["..."] if len(columns) > MOST_COLUMNS else [])])
    wrong = f"{label} has no column {missing} (its columns: {there}); rename the columns that hold the responses"
    return wrong if missing else ""


def _nothing_left(label: str, columns: Sequence[str], bad_rows: Sequence[BadRow]) -> str:
    if not bad_rows:
        return f"{label} is empty; a row has 'prompt', 'chosen' and 'rejected'"
    wrong = _missing_columns(columns, label) if all(bad.reason == MISSING_KEY for bad in bad_rows) else ""
    return wrong or f"{label} holds no usable pair: {'; '.join(describe_bad_rows(bad_rows))}; mend such rows"


def _first_of_many(bad_rows: Sequence[BadRow]) -> str:
    first, count = bad_rows[0], len(bad_rows)
    all_of_them = "it is the only such row" if count == 1 else f"it is the first of {count:,} such rows"
    return f"{first.source} is no pair: {first.reason} ({first.detail}); {all_of_them}: mend it, or load without strict"


def _place(bad: BadRow) -> str:
    return f"{bad.source}, {bad.detail}" if bad.detail else bad.source


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"
