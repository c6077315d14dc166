"""What the runs that doubt labels came to, in sentences."""

from __future__ import annotations

from gapo.studies.consensus_tables import NOISY, OURS, RANDOM
from gapo.studies.names import method_name
from gapo.studies.rows import Rows, Tables, first, number, where
from gapo.studies.seeds import ENOUGH
from gapo.studies.sentences import compared, interval, kept_as, listed, percent, plain, points

BAR = "the bar, to be ahead of every other by more than the interval,"


def findings(found: Tables) -> list[str]:
    return [
        ranked(where(found["accuracy"], flips=RANDOM, rate=0.4)),
        " ".join(at_rate(found, rate) for rate in NOISY),
        by_length(found),
    ]


def ranked(rows: Rows) -> str:
    """Which place ours takes where most labels are wrong."""
    order = sorted(
        (row for row in rows if number(row["accuracy"]) is not None), key=lambda row: row["accuracy"], reverse=True
    )
    names = [row["method"] for row in order]
    if OURS not in names:
        return "Consensus was not measured with 40 % flipped at random."
    every = listed([f"{method_name(row['method'])} {percent(row['accuracy'])}" for row in order])
    return f"With 40 % flipped at random Consensus is number {names.index(OURS) + 1} of {len(order)} methods: {every}."


def at_rate(found: Tables, rate: float) -> str:
    """Ours minus the best other, and whether it is clearly ahead of all."""
    here = {"flips": RANDOM, "rate": rate}
    minus = where(found["consensus_minus"], **here)
    others = {row["method"]: one for row in minus if (one := kept_as(row, "accuracy")) is not None}
    means = [row for row in where(found["accuracy"], **here) if row["method"] in others]
    if not means:
        return f"With {100 * rate:.0f} % flipped at random nothing was measured to compare with."
    best = max(means, key=lambda row: row["accuracy"])["method"]
    level = [method_name(name) for name, one in others.items() if not (one.clear and one.mean > 0)]
    few = min(one.seeds for one in others.values())
    verdict = f"is not met: it is not clearly ahead of {listed(level)}" if level else "is met"
    if few < ENOUGH:
        verdict = f"cannot be judged by {few} of at least {ENOUGH} seeds"
    return (
        f"With {100 * rate:.0f} % flipped at random Consensus minus {method_name(best)}, the best other, is "
        f"{points(others[best].mean)} points ({interval(others[best])}); {BAR} {verdict}."
    )


def by_length(found: Tables) -> str:
    """Where the flips have a direction of their own: said whatever came out."""
    here = {"flips": "by length", "rate": 0.4}
    difference = kept_as(first(found["consensus_minus"], **here, method="simpo"), "accuracy")
    said = compared(OURS, "simpo", difference, "accuracy with 40 % flipped by length")
    doubts = first(found["rates"], **here)
    if doubts is None or doubts["area"] is None:
        return said
    verdict = "below 0.5: the direction itself is the wrong one" if doubts["area"] < 0.5 else "chance is 0.5"
    return (
        f"{said} There doubt finds flipped labels with an area under ROC of {plain(doubts['area'])} ({verdict}), and "
        f"their share is estimated as {percent(doubts['estimated'])}."
    )
