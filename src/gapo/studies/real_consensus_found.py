"""What doubting labels came to with a real language model, in sentences. Neither of ours is picked by its result."""

from __future__ import annotations

from gapo.studies.consensus_tables import NOISY, RANDOM
from gapo.studies.names import method_name
from gapo.studies.rows import Row, Rows, Tables, first, number, where
from gapo.studies.seeds import ENOUGH
from gapo.studies.sentences import cell, kept_as, listed, percent, plain

OURS = ("consensus_dpo", "consensus")
OTHERS = ("dpo", "simpo", "robust_dpo", "dr_dpo", "gapo")
PLACES = tuple((data, rate) for data in ("polite", "courtesy") for rate in NOISY)
MET, NOT_MET = "clearly ahead of every other method on", "not clearly ahead of all on"
OPEN, NOT_RUN = "with too few runs to say on", "not run yet on"


def findings(found: Tables) -> list[str]:
    with_dpo, alone = (_ahead(found, ours) for ours in OURS)
    return [_told(found), with_dpo, " ".join([alone, *_mixed(found), _disputed(found)])]


def _told(found: Tables) -> str:
    """How well labels turned at random are told from right ones, by the runs that doubted them."""
    areas = {place: cell(_here(found["doubts"], *place), "area") for place in PLACES}
    parts = [f"{area:.2f} on {_name(*place)}" for place, area in areas.items() if area is not None]
    if not parts:
        return "No labels turned at random were judged yet."
    return f"Labels turned at random are told from right ones with an area under ROC of {listed(parts)}."


def _ahead(found: Tables, ours: str) -> str:
    """Where one of ours is ahead of all others by more than the interval, where not, and where that is not known."""
    verdicts = {place: _verdict(found, ours, place) for place in PLACES}
    parts = [
        f"{verdict} {listed([_beside(found, ours, place) for place in PLACES if verdicts[place] == verdict])}"
        for verdict in (MET, NOT_MET, OPEN, NOT_RUN)
        if verdict in verdicts.values()
    ]
    return f"{method_name(ours)} is {'; '.join(parts)}."


def _beside(found: Tables, ours: str, place: tuple[str, float]) -> str:
    """A place with the accuracy of ours, and of the best other."""
    known = {row["method"]: row for row in _here(found["accuracy"], *place) if number(row.get("accuracy")) is not None}
    if ours not in known:
        return _name(*place)
    others = [known[method] for method in OTHERS if method in known]
    best = max(others, key=lambda row: row["accuracy"], default=None)
    beside = "" if best is None else f", {method_name(best['method'])} {_share(best)}"
    return f"{_name(*place)} ({_share(known[ours])}{beside})"


def _verdict(found: Tables, ours: str, place: tuple[str, float]) -> str:
    if cell(_here(found["accuracy"], *place), "accuracy", method=ours) is None:
        return NOT_RUN
    minus = _here(found[f"{ours}_minus"], *place)
    gains = [kept_as(first(minus, method=method), "accuracy") for method in OTHERS]
    known = [gain for gain in gains if gain is not None and gain.seeds >= ENOUGH]
    if any(not (gain.clear and gain.mean > 0) for gain in known):
        return NOT_MET
    return MET if len(known) == len(OTHERS) else OPEN


def _mixed(found: Tables) -> list[str]:
    """What it does to judge helpful and harmless pairs apart; nothing before both were looked at."""
    here = where(found["told"], data="hh", truth="turned at random", scope="states", rate=0.2)
    apart = first(here, within="subset")
    together = first(here, within="all", leaders=apart["leaders"]) if apart is not None else None
    if apart is None or together is None:
        return []
    return [
        f"Of {apart['leaders']:,} helpful and harmless pairs of HH with 20 % turned at random, labels are told with an "
        f"area of {together['area']:.2f} when all pairs judge each other, and of {apart['area']:.2f} when those of one "
        "subset do."
    ]


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
    return f"{data} pairs at {100 * rate:.0f} %"


def _share(row: Row) -> str:
    return percent(row["accuracy"])
