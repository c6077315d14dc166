"""The sentences about a real model that doubts labels: both of ours are named, and a bar needs seeds and all others."""

import numpy as np
import pytest
import torch

from gapo.studies.catalogue import BY_NAME
from gapo.studies.consensus_tables import USUAL
from gapo.studies.real_consensus_found import OTHERS, OURS
from gapo.studies.real_consensus_grid import WAYS
from gapo.studies.real_consensus_looks import told_among

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
    everyone = {**LEVEL, "gapo": 0.65, "consensus": 0.7, "consensus_dpo": 0.8}
    told, with_dpo, rest = said(rows("polite", 0.4, everyone))
    assert "polite pairs at 40 % (80.7 %, GAPO 65.5 %)" in with_dpo
    assert "polite pairs at 40 % (70.6 %, GAPO 65.5 %)" in rest
    left = "not run yet on polite pairs at 20 %, courtesy pairs at 20 % and courtesy pairs at 40 %."
    assert with_dpo.endswith(left)
    assert left in rest
    assert told == "No labels turned at random were judged yet."
    assert "not looked at yet" in rest


def test_areas_are_those_of_the_runs_that_doubted():
    doubting = rows("courtesy", 0.2, {"consensus_dpo": 0.9, "consensus": 0.8})
    told, *_ = said([{**row, "area": 0.9 + 0.03 * row["seed"]} for row in doubting])
    assert (
        told
        == "Labels turned at random are told from right ones with an area under ROC of 0.93 on courtesy pairs at 20 %."
    )


AHEAD, NOT_CLEAR, FEW = (
    "clearly ahead of every other method on",
    "not clearly ahead of all on",
    "too few runs to say on",
)


@pytest.mark.parametrize(
    ("seeds", "others", "verdict"),
    [
        (3, LEVEL, AHEAD),
        (2, LEVEL, FEW),
        (3, {**LEVEL, "dpo": 0.7}, NOT_CLEAR),
        (3, {name: 0.6 for name in OTHERS if name != "gapo"}, FEW),
        (3, {"dpo": 0.75}, NOT_CLEAR),  # one that is ahead is enough
    ],
)
def test_to_be_clearly_ahead_takes_seeds_and_every_other_method(seeds, others, verdict):
    _, with_dpo, alone = said(rows("polite", 0.2, {**others, "consensus_dpo": 0.7}, seeds))
    assert f"{verdict} polite pairs at 20 % (70." in with_dpo
    assert sum(with_dpo.count(each) for each in (AHEAD, NOT_CLEAR, FEW)) == 1
    assert alone.startswith("Consensus is not run yet on polite pairs at 20 %, ")


def test_runs_judged_in_another_way_stand_apart_and_decide_nothing():
    way = next(iter(WAYS))
    kept = rows("polite", 0.4, {"consensus_dpo": 0.9}, judged=way)
    tables = STUDY.tables([*kept, *rows("polite", 0.4, {**LEVEL, "consensus_dpo": 0.8})])
    by = {row["judged"]: row["accuracy"] for row in tables["judged_by"]}
    assert by[way] - by[USUAL] == pytest.approx(0.1, abs=0.02)
    assert "polite pairs at 40 % (80.6 %, " in STUDY.findings(tables)[1]
    assert "Consensus+DPO is not run yet on polite pairs" in said(kept, rows("polite", 0.4, LEVEL))[1]


def test_what_is_told_of_disputes_has_the_interval_of_its_pairs():
    told = {"what": "told", "truth": "disputed", "data": "judges", "rate": 0.0, "scope": "states", "leaders": 400}
    *_, judges = said([{**told, "method": "simpo", "seed": 0, "run": "0", "area": 0.58, "least": 0.514, "most": 0.643}])
    assert "area under ROC of 0.58 (chance is 0.5; pairs drawn again, 0.51 to 0.64), by 400 pairs" in judges
    *_, judges = said([{**told, "method": "simpo", "seed": 0, "run": "0", "area": 0.58}])
    assert "(chance is 0.5), by" in judges


def test_helpful_and_harmless_pairs_are_judged_together_and_apart():
    told = {
        "what": "told",
        "truth": "turned at random",
        "data": "hh",
        "rate": 0.2,
        "scope": "states",
        "method": "simpo",
    }
    told |= {"seed": 0, "run": "0", "leaders": 2000}
    together, apart = {**told, "within": "all", "area": 0.58}, {**told, "within": "subset", "area": 0.69}
    sentence = "an area of 0.58 when all pairs judge each other, and of 0.69 when those of one subset do."
    assert sum(sentence in one for one in said([together, apart])) == 1
    assert not any("subset" in one for one in said([together]))
    earlier = {key: value for key, value in together.items() if key != "within"}
    assert {row["within"] for row in STUDY.tables([earlier])["told"]} == {"all"}


def test_among_their_own_kind_turned_labels_are_told_and_counted():
    draw = np.random.default_rng(0)
    kind = np.repeat([1.0, -1.0], 200)
    rows = 0.5 * kind[:, None] * np.eye(32)[0] + draw.normal(size=(400, 32)) / np.sqrt(32)
    sketches, names = torch.from_numpy(rows).float(), [f"{k:.0f}" for k in kind]
    together, apart = (told_among(sketches, torch.arange(400), groups, seed=0) for groups in (None, names))
    assert [row["rate"] for row in apart] == [0.0, 0.2, 0.4]
    assert apart[0]["area"] is None
    assert [row["estimated"] for row in apart[:2]] == pytest.approx([0.0, 0.2], abs=0.1)
    assert apart[1]["area"] > 0.8
    assert together[1]["area"] < 0.65
