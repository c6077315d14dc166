"""What human preferences came to, in sentences."""

from __future__ import annotations

from math import sqrt

from gapo.studies.names import method_name
from gapo.studies.rows import Rows, Tables, first, number, where
from gapo.studies.seeds import Estimate
from gapo.studies.sentences import compared, kept_as, percent, points

LIKELY = "likelihood_accuracy"
AMONG = {0.2: "with 20 % flipped at random", 0.0: "with the labels as they are"}


def findings(found: Tables) -> list[str]:
    rates = {rate: where(found["accuracy"], rate=rate) for rate in AMONG}
    ranges = [f"{AMONG[rate]} {between}" for rate, rows in rates.items() if (between := _between(rows))]
    error = f" (standard error {_error(found['accuracy']):.1f} points, by test pairs)" if ranges else ""
    return [
        f"Accuracy on HH's test pairs{error}: {'; '.join(ranges)}." if ranges else "No method was trained on HH yet.",
        _against(found),
        _beside_the_start(found),
    ]


def _between(rows: Rows) -> str:
    """The worst and the best of some methods."""
    known = sorted((row["accuracy"], row["method"]) for row in rows if number(row.get("accuracy")) is not None)
    ends = [f"{percent(share)} ({method_name(method)})" for share, method in dict.fromkeys(known[:1] + known[-1:])]
    return " to ".join(ends)


def _error(rows: Rows) -> float:
    """What the choice of test pairs alone does to an accuracy, in points: sqrt(p * (1 - p) / pairs), at most."""
    known = [(row["accuracy"], row["pairs"]) for row in rows if number(row.get("accuracy")) is not None]
    return max(100 * sqrt(share * (1 - share) / pairs) for share, pairs in known)


def _against(found: Tables) -> str:
    """GAPO beside SimPO on the same pairs."""
    known = {rate: kept_as(first(found["gapo_minus"], rate=rate, method="simpo"), "accuracy") for rate in AMONG}
    if any(one is not None and one.seeds > 1 for one in known.values()):
        return " ".join(compared("gapo", "simpo", one, f"accuracy {AMONG[rate]}") for rate, one in known.items())
    said = [f"{points(one.mean)} points {_by_pairs(one)}{AMONG[rate]}" for rate, one in known.items() if one]
    return f"GAPO minus SimPO: {', '.join(said)}; one seed." if said else compared("gapo", "simpo", None, "")


def _by_pairs(found: Estimate) -> str:
    return "" if found.low is None else f"({points(found.low)} to {points(found.high)} by test pairs) "


def _beside_the_start(found: Tables) -> str:
    """What the start model prefers, and where training takes GAPO's preference furthest from that."""
    start = first(found["start"], method="start")
    if start is None or number(start.get(LIKELY)) is None:
        return "The start model was not measured yet."
    said = f"By likelihood a token the start model prefers the chosen answer of {percent(start[LIKELY])} of the pairs"
    before = {row["subset"]: row[LIKELY] for row in where(found["subsets"], method="start") if row["subset"] != "all"}
    ours = [row for row in where(found["subsets"], method="gapo", rate=0.2) if row["subset"] in before]
    if not ours:
        return f"{said}."
    most = max(ours, key=lambda row: abs(row[LIKELY] - before[row["subset"]]))
    return (
        f"{said}; with 20 % flipped GAPO is furthest from it on pairs of {most['subset']} "
        f"({percent(before[most['subset']])} before, {percent(most[LIKELY])} after)."
    )
