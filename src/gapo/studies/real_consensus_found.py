"""What doubting labels came to with a real language model, in sentences. Neither of ours is picked by its result."""

from __future__ import annotations

from gapo.studies.consensus_tables import NOISY, RANDOM
from gapo.studies.names import method_name
from gapo.studies.rows import Row, Rows, Tables, first, number, where
from gapo.studies.seeds import ENOUGH
from gapo.studies.sentences import kept_as, listed, percent, plain

OURS = ("consensus_dpo", "consensus")
OTHERS = ("dpo", "simpo", "robust_dpo", "dr_dpo", "gapo")
PLACES = tuple((data, rate) for data in ("polite", "courtesy") for rate in NOISY)
MET, NOT_MET, OPEN = "met", "not met", "open"


def findings(found: Tables) -> list[str]:
    return [_accuracies(found), _bar(found), _disputed(found)]


def _accuracies(found: Tables) -> str:
    """Both of ours beside the best other, wherever labels were flipped at random."""
    parts = [_beside(_name(*place), _here(found["accuracy"], *place)) for place in PLACES]
    return f"Accuracy on clean pairs after training with labels flipped at random: {'; '.join(parts)}."


def _beside(name: str, rows: Rows) -> str:
    known = {row["method"]: row for row in rows if number(row.get("accuracy")) is not None}
    ours = [f"{method_name(method)} {_share(known[method])}" for method in OURS if method in known]
    others = [known[method] for method in OTHERS if method in known]
    if not ours:
        return f"{name} ours not run yet"
    best = max(others, key=lambda row: row["accuracy"], default=None)
    beside = [] if best is None else [f"best other {method_name(best['method'])} {_share(best)}"]
    return f"{name} {', '.join([*ours, *beside])}"


def _bar(found: Tables) -> str:
    """Where each of ours is clearly ahead of all others, where it is not, and where seeds or methods are missing."""
    said = []
    for ours in OURS:
        verdicts = {place: _verdict(_here(found[f"{ours}_minus"], *place)) for place in PLACES}
        parts = [
            f"{verdict} for {listed([_name(*place) for place in PLACES if verdicts[place] == verdict])}"
            for verdict in (MET, NOT_MET, OPEN)
            if verdict in verdicts.values()
        ]
        if len(parts) == 1:
            parts = [f"{verdicts[PLACES[0]]} everywhere"]
        said.append(f"{method_name(ours)} {', '.join(parts)}")
    return (
        f"The bar, to be ahead of every other method by more than the interval, with {ENOUGH} seeds or more: "
        f"{'; '.join(said)}."
    )


def _verdict(minus: Rows) -> str:
    gains = [kept_as(first(minus, method=method), "accuracy") for method in OTHERS]
    known = [gain for gain in gains if gain is not None and gain.seeds >= ENOUGH]
    if any(not (gain.clear and gain.mean > 0) for gain in known):
        return NOT_MET
    return MET if len(known) == len(OTHERS) else OPEN


def _disputed(found: Tables) -> str:
    judges = first(found["told"], data="judges", truth="disputed", scope="states")
    if judges is None:
        return f"The judged pairs were not looked at yet; {percent(0.5)} would be chance."
    least, most = (number(judges.get(end)) for end in ("least", "most"))
    within = "" if least is None or most is None else f"; pairs drawn again, {least:.2f} to {most:.2f}"
    return (
        f"Where two judges disagree is found with an area under ROC of {plain(judges['area'])} (chance is 0.5{within}),"
        f" by {plain(judges['leaders'])} pairs."
    )


def _here(rows: Rows, data: str, rate: float) -> Rows:
    return where(rows, data=data, flips=RANDOM, rate=rate)


def _name(data: str, rate: float) -> str:
    return f"{data} at {100 * rate:.0f} %"


def _share(row: Row) -> str:
    return percent(row["accuracy"])
