"""What the small search came to, in sentences."""

from __future__ import annotations

from gapo.studies.names import method_name
from gapo.studies.rows import Rows, Tables
from gapo.studies.sentences import listed, percent, plain


def findings(found: Tables) -> list[str]:
    chosen = [row for row in found["chosen"] if row["method"] == row["family"]]
    if not chosen:
        return ["Nothing was tried yet."] * 3
    rates = [f"{method_name(row['method'])} {plain(row['learning_rate'])}" for row in chosen]
    edge = [method_name(row["method"]) for row in chosen if row["edge"] == "yes"]
    spread = max(chosen, key=lambda row: row["accuracy"] - row["worst"])
    return [
        f"Learning rates chosen on held-out polite pairs: {listed(rates)}.",
        f"Tuning matters most for {method_name(spread['method'])}: {percent(spread['worst'])} at its worst rate, "
        f"{percent(spread['accuracy'])} at the one chosen.",
        " ".join([_at_an_end(edge), *_with_adapters(found["adapters"])]),
    ]


def _at_an_end(names: list[str]) -> str:
    return (
        f"The chosen rate lies at an end of the grid for {listed(names)}." if names else "No chosen rate is at an end."
    )


def _with_adapters(rows: Rows) -> list[str]:
    """The best rate is not always one to take: the drift says what it did to the model."""
    parts = [
        f"{method_name(row['method'])} {percent(row['accuracy'])} at {plain(row['learning_rate'])} with a drift of "
        f"{plain(row['kl'])} nats a token"
        for row in rows
    ]
    return [f"With adapters the best are {listed(parts)}."] if parts else []
