"""The sentences about a real model that doubts labels: both of ours are named, and a bar needs seeds and all others."""

import pytest

from gapo.studies.catalogue import BY_NAME
from gapo.studies.consensus_tables import USUAL
from gapo.studies.real_consensus_found import OTHERS, OURS
from gapo.studies.real_consensus_grid import WAYS

STUDY = BY_NAME["real/consensus"]


def rows(data, rate, accuracies, seeds=3, judged=USUAL):
    """One run a method and seed, each seed a little off in its own way; of ours with what judged the labels."""
    return [
        ({"judged": judged} if method in OURS else {})
        | {"what": "outcome", "data": data, "flips": "at random", "rate": rate, "method": method, "seed": seed}
        | {"accuracy": accuracy + 0.001 * seed * (1 + place), "accuracy_before": 0.5, "kl": 0.1, "run": f"{place}"}
        for place, (method, accuracy) in enumerate(accuracies.items())
        for seed in range(seeds)
    ]


def said(*parts):
    return STUDY.findings(STUDY.tables([row for part in parts for row in part]))


LEVEL = dict.fromkeys(OTHERS, 0.6)


def test_both_of_ours_stand_beside_the_best_other():
    accuracy, _, judges = said(rows("polite", 0.4, {**LEVEL, "gapo": 0.65, "consensus": 0.7, "consensus_dpo": 0.8}))
    assert "polite at 40 % Consensus+DPO 80.7 %, Consensus 70.6 %, best other GAPO 65.5 %" in accuracy
    assert accuracy.count("ours not run yet") == 3
    assert "not looked at yet" in judges


@pytest.mark.parametrize(
    ("seeds", "others", "verdict"),
    [
        (3, LEVEL, "Consensus+DPO met for polite at 20 %, open for"),
        (2, LEVEL, "Consensus+DPO open everywhere"),
        (3, {**LEVEL, "dpo": 0.7}, "Consensus+DPO not met for polite at 20 %, open for"),
        (3, {name: 0.6 for name in OTHERS if name != "gapo"}, "Consensus+DPO open everywhere"),
        (3, {"dpo": 0.75}, "Consensus+DPO not met for polite at 20 %"),  # one that is ahead is enough
    ],
)
def test_the_bar_takes_seeds_and_every_other_method(seeds, others, verdict):
    _, bar, _ = said(rows("polite", 0.2, {**others, "consensus_dpo": 0.7}, seeds))
    assert verdict in bar
    assert bar.endswith("Consensus open everywhere.")


def test_runs_judged_in_another_way_stand_apart_and_decide_nothing():
    way = next(iter(WAYS))
    kept = rows("polite", 0.4, {"consensus_dpo": 0.9}, judged=way)
    tables = STUDY.tables([*kept, *rows("polite", 0.4, {**LEVEL, "consensus_dpo": 0.8})])
    by = {row["judged"]: row["accuracy"] for row in tables["judged_by"]}
    assert by[way] - by[USUAL] == pytest.approx(0.1, abs=0.02)
    assert "polite at 40 % Consensus+DPO 80.6 %" in STUDY.findings(tables)[0]
    assert "Consensus+DPO open everywhere" in said(kept, rows("polite", 0.4, LEVEL))[1]


def test_what_is_told_of_disputes_has_the_interval_of_its_pairs():
    told = {"what": "told", "truth": "disputed", "data": "judges", "rate": 0.0, "scope": "states", "leaders": 400}
    *_, judges = said([{**told, "method": "simpo", "seed": 0, "run": "0", "area": 0.58, "least": 0.514, "most": 0.643}])
    assert "area under ROC of 0.58 (chance is 0.5; pairs drawn again, 0.51 to 0.64), by 400 pairs" in judges
    *_, judges = said([{**told, "method": "simpo", "seed": 0, "run": "0", "area": 0.58}])
    assert "(chance is 0.5), by" in judges
