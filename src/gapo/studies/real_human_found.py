"""What human preferences came to, in sentences."""

from __future__ import annotations

from math import sqrt

from gapo.studies.rows import Rows, Tables, first, number, where
from gapo.studies.sentences import compared, kept_as, percent, points, ranking

LIKELY = "likelihood_accuracy"
AMONG = {0.2: "with 20 % flipped at random", 0.0: "with the labels as they are"}
PLACES = {rate: f"accuracy on HH's test pairs {words}" for rate, words in AMONG.items()}


def findings(found: Tables) -> list[str]:
    return [
        " ".join(ranking(where(found["accuracy"], rate=rate), "accuracy", words) for rate, words in PLACES.items())
        + _error(found["accuracy"]),
        " ".join(_against(found, rate, words) for rate, words in AMONG.items()),
        _beside_the_start(found),
    ]


def _against(found: Tables, rate: float, words: str) -> str:
    row = first(found["gapo_minus"], rate=rate, method="simpo")
    against = kept_as(row, "accuracy")
    if against is None or against.seeds > 1 or against.low is None:
        return compared("gapo", "simpo", against, f"accuracy {words}")
    return (
        f"GAPO minus SimPO {words}: {points(against.mean)} points, one seed "
        f"({points(against.low)} to {points(against.high)} for the choice of test pairs)."
    )


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


def _error(rows: Rows) -> str:
    """What the choice of test pairs alone does to an accuracy: sqrt(p * (1 - p) / pairs), at most."""
    known = [(row["accuracy"], row["pairs"]) for row in rows if number(row.get("accuracy")) is not None]
    if not known:
        return ""
    most = max(100 * sqrt(share * (1 - share) / pairs) for share, pairs in known)
    return f" Each has a standard error of {most:.1f} points for the choice of test pairs."
