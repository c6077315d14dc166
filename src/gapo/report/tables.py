"""The page's tables as plain rows, so that they can be tested without HTML."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gapo.report import results
from gapo.report.pair_weights import LatePairs, Tier
from gapo.report.paired import change_between
from gapo.report.run_files import Run, number
from gapo.report.statistics import Interval
from gapo.report.wording import (
    NONE,
    duration,
    flattened,
    percent,
    percent_interval,
    plain,
    points,
    points_interval,
    signed,
)

SHARES = frozenset({"accuracy", "win_rate", "lc_win_rate", "skill_kept"})
BEFORE = {"quality": "start_quality", "skill_kept": "start_skill"}  # measured together, so named apart in the results
NAMES = {
    "accuracy": "reward accuracy",
    "win_rate": "win rate",
    "lc_win_rate": "length-controlled win rate",
    "skill_kept": "skill kept",
    "drift": "drift from the start model",
    "mean_reply_tokens": "mean tokens of a reply",
    "chosen_logp": "chosen log-prob",
    "rejected_logp": "rejected log-prob",
}


@dataclass(frozen=True)
class Table:
    """A header and rows of text; the first column names the row."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def result_table(run: Run) -> Table:
    """Every number measured before and after training, then those measured only after."""
    before, after, measures = (results.section(run, name) for name in ("before", "after", "measures"))
    rows = [
        (_named(key), *_cells(key, number(before.get(key)), number(after.get(key)), after, _wilson(run, key)))
        for key in dict.fromkeys([*before, *after])
        if number(before.get(key)) is not None or number(after.get(key)) is not None
    ]
    rows += [
        (_named(key), *_cells(key, number(measures.get(BEFORE.get(key, ""))), number(value), measures))
        for key, value in measures.items()
        if number(value) is not None and key not in BEFORE.values()
    ]
    return Table(("measure", "before", "after", "95\u00a0% interval after", "change"), tuple(rows))


def _cells(
    key: str, before: float | None, after: float | None, given: Mapping[str, Any], wilson: Interval | None = None
) -> tuple[str, str, str, str]:
    """Before, after, interval after, change."""
    gain = after - before if before is not None and after is not None else None
    interval = results.given_interval(given, key) or wilson
    moved = points(gain) if key in SHARES else plain(gain)
    return (_shown(key, before), _shown(key, after), _shown_interval(key, interval), moved)


def _wilson(run: Run, key: str) -> Interval | None:
    rate = results.accuracy(run, "after") if key == "accuracy" else None
    return rate.interval if rate else None


def accuracy_comparison(runs: Sequence[Run], names: Sequence[str]) -> Table:
    """Reward accuracy of each run, and how far it is from the first run's."""
    columns: list[tuple[str, Callable[[Run], str]]] = [
        ("before", lambda run: _accuracy(run, "before")),
        ("after", lambda run: _accuracy(run, "after")),
        ("95\u00a0% interval", _accuracy_interval),
        (f"points above {names[0]}", lambda run: NONE if run is runs[0] else _difference(run, runs[0])),
    ]
    return _per_run(runs, names, columns)


def other_measures(runs: Sequence[Run], names: Sequence[str]) -> Table:
    """What else is known about each run; two kinds of drift stay apart because they are measured on different text."""
    columns: list[tuple[str, Callable[[Run], str]]] = [
        ("objective", lambda run: run.objective),
        ("labels flipped", lambda run: percent(results.flip_share(run))),
        ("margin", lambda run: plain(results.after(run, "margin"), 3)),
        ("drift", lambda run: plain(results.after(run, "drift"), 3)),
        ("drift, last step", lambda run: plain(results.last_drift(run), 3)),
        ("win rate", lambda run: percent(results.after(run, "win_rate"))),
        ("length-controlled", lambda run: percent(results.after(run, "lc_win_rate"))),
        ("skill kept", lambda run: percent(results.after(run, "skill_kept"))),
        ("time", lambda run: duration(results.seconds(run))),
    ]
    return _per_run(runs, names, columns)


def _per_run(runs: Sequence[Run], names: Sequence[str], columns: Sequence[tuple[str, Callable[[Run], str]]]) -> Table:
    """A row per run; a column that no run can fill is left out."""
    filled = [(title, cells) for title, cell in columns if set(cells := [cell(run) for run in runs]) != {NONE}]
    rows = zip(names, *(cells for _, cells in filled), strict=True)
    return Table(("run", *(title for title, _ in filled)), tuple(rows))


def recipe_differences(runs: Sequence[Run], names: Sequence[str]) -> Table:
    """What the recipes do not share: a comparison is only as good as what was held equal."""
    recipes = [flattened(run.recipe) for run in runs]
    keys = dict.fromkeys(key for recipe in recipes for key in recipe if key != "train.output_dir")  # always differs
    rows = [(key, *(recipe.get(key, NONE) for recipe in recipes)) for key in keys]
    return Table(("setting", *names), tuple(row for row in rows if len(set(row[1:])) > 1))


def tier_table(tiers: Sequence[Tier]) -> Table:
    """Flip rate by weight tier."""
    rows = ((t.name, str(t.pairs), str(t.flipped), percent(t.rate), percent_interval(t.interval)) for t in tiers)
    return Table(("tier by weight", "pairs", "flipped", "flip rate", "95\u00a0% interval"), tuple(rows))


def extreme_pairs(pairs: LatePairs, *, highest: bool, count: int = 10) -> Table:
    """The pairs the run trusted most or least, by id, so that one can look them up."""
    weight = pairs.columns["weight"]
    order = np.argsort(-weight if highest else weight, kind="stable")[:count]
    shown = [name for name in ("gap", "margin", "loss") if np.isfinite(pairs.columns.get(name, np.nan)).any()]
    rows = tuple(
        (
            str(pairs.pair_id[at]),
            plain(float(weight[at])),
            *(plain(float(pairs.columns[name][at])) for name in shown),
            _tokens(pairs, int(at)),
            {0.0: "clean", 1.0: "flipped"}.get(float(pairs.columns["flipped"][at]), "unknown"),
        )
        for at in order
    )
    return Table(("pair", "weight", *shown, "tokens", "label"), rows)


def _tokens(pairs: LatePairs, at: int) -> str:
    sides = (pairs.columns.get(name) for name in ("chosen_tokens", "rejected_tokens"))
    return " / ".join(NONE if side is None else plain(float(side[at])) for side in sides)


def _accuracy(run: Run, when: str) -> str:
    rate = results.accuracy(run, when)
    return percent(rate.value if rate else None)


def _accuracy_interval(run: Run) -> str:
    rate = results.accuracy(run, "after")
    return percent_interval(rate.interval if rate else None)


def _difference(run: Run, first: Run) -> str:
    gain = change_between(run, first)
    if gain is None:
        return NONE
    return signed(100 * gain.value) + (f" ({points_interval(gain.interval)})" if gain.interval else "")


def _named(key: str) -> str:
    return NAMES.get(key, key.replace("_", " "))


def _shown(key: str, value: float | None) -> str:
    return percent(value) if key in SHARES else plain(value)


def _shown_interval(key: str, interval: Interval | None) -> str:
    if interval is None:
        return NONE
    return percent_interval(interval) if key in SHARES else f"{plain(interval.low)} to {plain(interval.high)}"
