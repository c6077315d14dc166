"""What doubting labels came to with a real language model, in sentences."""

from __future__ import annotations

from gapo.studies.consensus_found import against_the_best
from gapo.studies.consensus_tables import NOISY, RANDOM
from gapo.studies.rows import Tables, first, number, where
from gapo.studies.sentences import percent, plain

OURS = ("consensus_dpo", "consensus")


def findings(found: Tables) -> list[str]:
    judges = first(found["told"], data="judges", truth="disputed")
    return [
        *(" ".join(_at(found, data, rate) for rate in NOISY) for data in ("polite", "courtesy")),
        f"Where two judges disagree is found with an area under ROC of {plain(judges['area'])} (chance is 0.5), by "
        f"{plain(judges['leaders'])} pairs."
        if judges is not None
        else f"The judged pairs were not looked at yet; {percent(0.5)} would be chance.",
    ]


def _at(found: Tables, data: str, rate: float) -> str:
    """Whichever of ours is better there, beside the best other."""
    here = where(found["accuracy"], data=data, flips=RANDOM, rate=rate)
    known = [row for row in here if row["method"] in OURS and number(row.get("accuracy")) is not None]
    words = f"On {data} pairs with {100 * rate:.0f} % flipped at random"
    if not known:
        return f"{words} ours was not run yet."
    ours = max(known, key=lambda row: row["accuracy"])["method"]
    minus_others = where(found[f"{ours}_minus"], data=data, flips=RANDOM, rate=rate)
    return against_the_best(ours, minus_others, here, words)
