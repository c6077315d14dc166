"""What human preferences came to, in sentences."""

from __future__ import annotations

from math import sqrt

from gapo.studies.rows import Rows, Tables, first, number, where
from gapo.studies.sentences import compared, kept_as, percent, ranking


def findings(found: Tables) -> list[str]:
    noisy = where(found["accuracy"], rate=0.2)
    start = first(found["start"], method="start")
    against = first(found["gapo_minus"], rate=0.2, method="simpo")
    before = number(start.get("likelihood_accuracy")) if start is not None else None
    return [
        ranking(noisy, "accuracy", "accuracy on HH's test pairs with 20 % flipped at random") + _error(noisy),
        compared("gapo", "simpo", kept_as(against, "accuracy"), "that accuracy"),
        f"By likelihood a token the start model prefers the chosen answer of {percent(before)} of the pairs."
        if before is not None
        else "The start model was not measured yet.",
    ]


def _error(rows: Rows) -> str:
    """What the choice of test pairs alone does to an accuracy: sqrt(p * (1 - p) / pairs), at most."""
    known = [(row["accuracy"], row["pairs"]) for row in rows if number(row.get("accuracy")) is not None]
    if not known:
        return ""
    points = max(100 * sqrt(share * (1 - share) / pairs) for share, pairs in known)
    return f" Each has a standard error of {points:.1f} points for the choice of test pairs."
