"""The sentences about human preferences: what test pairs alone do to an accuracy is said beside it."""

import numpy as np
import pytest

from gapo.studies.catalogue import BY_NAME

STUDY = BY_NAME["real/human"]


def rows(accuracies, pairs=400):
    place = {"what": "accuracy", "set": "hh:test", "subset": "all", "rate": 0.2, "seed": 0, "run": "0"}
    return [
        {**place, "method": method, "accuracy": share, "likelihood_accuracy": 0.5, "pairs": pairs}
        for method, share in accuracies.items()
    ]


def test_an_accuracy_has_the_standard_error_of_a_share():
    ranked, against, start = STUDY.findings(STUDY.tables(rows({"gapo": 0.54, "simpo": 0.52, "dpo": 0.5})))
    drawn = np.random.default_rng(0).binomial(400, 0.5, size=200_000) / 400
    assert ranked.endswith(": with 20 % flipped at random 50.0 % (DPO) to 54.0 % (GAPO).")
    assert float(ranked.split("standard error ")[1].split()[0]) == pytest.approx(100 * drawn.std(), abs=0.05)
    assert against == "GAPO minus SimPO: +2.0 points with 20 % flipped at random; one seed."
    assert start == "The start model was not measured yet."


def test_both_rates_are_told_and_one_method_alone_is_no_range():
    clean = [{**row, "rate": 0.0} for row in rows({"gapo": 0.55})]
    ranked, against, _ = STUDY.findings(STUDY.tables(rows({"gapo": 0.54, "simpo": 0.52}) + clean))
    assert ranked.endswith("52.0 % (SimPO) to 54.0 % (GAPO); with the labels as they are 55.0 % (GAPO).")
    assert "as they are" not in against


def test_several_seeds_are_compared_by_seeds():
    seeds = [{**row, "seed": seed} for seed in range(3) for row in rows({"gapo": 0.5 + 0.01 * seed, "simpo": 0.4})]
    against = STUDY.findings(STUDY.tables(seeds))[1]
    assert "GAPO is above SimPO in accuracy with 20 % flipped at random (+11.0 points" in against


def test_without_a_run_nothing_is_said_of_errors():
    assert "standard error" not in STUDY.findings(STUDY.tables([]))[0]


def test_a_difference_has_its_interval_over_test_pairs_where_runs_say_how_each_came_out():
    marks = {"gapo": "+" * 216 + "-" * 184, "simpo": "+" * 200 + "-" * 200}
    told = [{**row, "accuracy_by_item": marks[row["method"]]} for row in rows({"gapo": 0.54, "simpo": 0.5})]
    against = STUDY.findings(STUDY.tables(told))[1]
    half = 196 * np.sqrt(0.04 * 0.96 / 400)  # 16 of 400 pairs are told by GAPO alone
    assert against.startswith("GAPO minus SimPO: +4.0 points (")
    assert against.endswith(" by test pairs) with 20 % flipped at random; one seed.")
    low, high = (float(part) for part in against.split("points (")[1].split(" by test")[0].split(" to "))
    assert (high - low) / 2 == pytest.approx(half, abs=0.2)


def test_what_training_moves_most_is_named_with_what_the_start_model_did():
    subsets = {"helpful": (0.55, 0.6), "harmless": (0.5, 0.4)}
    told = rows({"gapo": 0.5})
    for subset, (before, after) in subsets.items():
        told += [{**told[0], "subset": subset, "likelihood_accuracy": after}]
        told += [{**told[0], "subset": subset, "likelihood_accuracy": before, "model": "start", "rate": 0.0}]
    told += [{**told[0], "likelihood_accuracy": 0.53, "model": "start", "rate": 0.0}]
    start = STUDY.findings(STUDY.tables(told))[2]
    assert "of 53.0 % of the pairs" in start
    assert "furthest from it on pairs of harmless (50.0 % before, 40.0 % after)" in start
