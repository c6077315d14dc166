"""Labels judged by the others: what is measured, what the tables hold, and sentences that go no further."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import nn

from gapo.consensus.scope import AGREED
from gapo.runs.recipe import recipe_hash
from gapo.studies.catalogue import CATALOGUE
from gapo.studies.consensus_looks import SIZES, areas_by_size, doubts_of, scopes_of
from gapo.studies.consensus_tables import OTHERS, OURS, USUAL
from gapo.studies.grid import Cell, Choice, recipe_of
from gapo.studies.rows import first, where
from gapo.studies.scale import MINI
from gapo.studies.store import Store, StoredRun
from gapo.studies.tasks import Setting, tasks_of

STUDY = CATALOGUE["consensus"]
PAIRS, WIDTH = 400, 64


def sketches(strength, seed=0):
    """Gradients that share a direction to this degree, the rest at random; right labels all."""
    draw = torch.Generator().manual_seed(seed)
    shared = torch.randn(WIDTH, generator=draw)
    return strength * shared + torch.randn(PAIRS, WIDTH, generator=draw)


def run_row(method, flips, rate, seed, accuracy, variant=USUAL, **more):
    labels = {"method": method, "flips": flips, "rate": rate, "variant": variant, "seed": seed, "run": "r"}
    return {**labels, "what": "run", "accuracy": accuracy, **more}


def rows_with(lead, seeds=5, length_lead=-0.05):
    """Ours ahead of each other method by so much at random, and by length by something else; DPO is the best other."""
    means = {"dpo": 0.72, **dict.fromkeys([name for name in OTHERS if name != "dpo"], 0.7)}
    rows = []
    for flips, ahead in (("at random", lead), ("by length", length_lead)):
        for rate in (0.2, 0.4):
            for seed in range(seeds):
                chance = 0.001 * seed
                doubts = {"estimated": rate, "true_rate": rate, "area": 0.8 if flips == "at random" else 0.3}
                rows += [run_row(name, flips, rate, seed, mean) for name, mean in means.items()]
                rows.append(run_row(OURS, flips, rate, seed, 0.72 + ahead + chance, **doubts))
    return rows


def test_a_shared_direction_finds_every_flip_and_chance_finds_none():
    prompts = torch.arange(PAIRS)
    assert areas_by_size(sketches(5.0), prompts, 0.2, seed=0, lead=AGREED)[PAIRS] > 0.999
    alone = areas_by_size(sketches(0.0), prompts, 0.2, seed=0, lead=AGREED)[PAIRS]
    assert abs(alone - 0.5) < 0.1


def test_more_pairs_make_a_better_direction_and_more_flips_a_worse_one():
    prompts = torch.arange(PAIRS)
    few, many = (
        np.mean([areas_by_size(sketches(0.3, s), prompts, 0.2, s, lead=AGREED)[n] for s in range(5)]) for n in (16, 256)
    )
    noisier = np.mean([areas_by_size(sketches(0.3, s), prompts, 0.4, s, lead=AGREED)[256] for s in range(5)])
    assert few < many
    assert noisier < many


def test_all_pairs_come_last_and_larger_sizes_are_left_out():
    found = areas_by_size(sketches(1.0), torch.arange(PAIRS), 0.2, seed=0, lead=AGREED)
    assert list(found) == [size for size in SIZES if size < PAIRS] + [PAIRS]
    assert list(areas_by_size(sketches(1.0), torch.arange(PAIRS), 0.2, seed=0, sizes=(), lead=AGREED)) == [PAIRS]


@pytest.mark.parametrize(("layers", "alone"), [(3, 3), (30, 8)])
def test_of_many_layers_some_are_looked_at(layers, alone):
    model = nn.Module()
    model.config = type("Config", (), {"num_hidden_layers": layers})()
    scopes = scopes_of(model)
    assert sum(name.startswith("gradients of layer") for name in scopes) == alone
    assert scopes[f"gradients of layer 1 of {layers}"] == r"\.0\."
    groups = [scopes[f"gradients of {name}"] for name in ("head", "the top layers", "all layers")]
    assert [scopes["states"], *groups] == ["states", "lm_head", "top", "full"]


def recorded(folder, wrong, flipped):
    weight = [1 - 2 * p for p in wrong]
    pq.write_table(pa.table({"wrong": wrong, "weight": weight, "flipped": flipped}), folder / "pairs.parquet")
    (folder / "steps.jsonl").write_text("".join(json.dumps({"noise_rate": rate}) + "\n" for rate in (0.3, 0.25)))
    return doubts_of(StoredRun(folder))


def test_doubts_are_those_of_the_record(tmp_path):
    wrong, flipped = [0.9, 0.8, *[0.1] * 18], [True, False, True, *[False] * 17]
    found = recorded(tmp_path, wrong, flipped)
    assert found["estimated"] == 0.25
    assert found["true_rate"] == 0.1
    assert found["precision"] == 0.5  # one of the two most doubted
    assert found["area"] == pytest.approx((18 + 17 / 2) / (2 * 18))
    assert found["flipped_weight"] == pytest.approx((-0.8 + 0.8) / 2)
    assert found["clean_weight"] == pytest.approx((-0.6 + 17 * 0.8) / 18)


def test_without_flips_there_is_nobody_to_find(tmp_path):
    found = recorded(tmp_path, [0.1] * 4, [None] * 4)
    assert found == {"estimated": 0.25, "true_rate": 0.0, "clean_weight": pytest.approx(0.8)}


def test_the_bar_is_met_where_every_interval_is_above_zero():
    found = STUDY.tables(rows_with(0.02))
    rank, best, _ = STUDY.findings(found)
    assert "number 1 of 6 methods: Consensus 74.2 %, DPO 72.0 %" in rank
    assert best.count("Consensus minus DPO, the best other, is +2.2 points (95 % interval ") == 2
    assert best.count("by more than the interval, is met.") == 2


def test_the_bar_is_not_met_where_one_method_is_level():
    _, best, _ = STUDY.findings(STUDY.tables(rows_with(-0.002)))
    assert best.count("is not met: it is not clearly ahead of DPO.") == 2
    rank, best, _ = STUDY.findings(STUDY.tables(rows_with(-0.05)))
    assert "number 6 of 6" in rank
    assert "not clearly ahead of SimPO, DPO, r-DPO, Dr.DPO and GAPO." in best


def test_few_seeds_meet_no_bar():
    _, best, last = STUDY.findings(STUDY.tables(rows_with(0.05, seeds=2)))
    assert best.count("cannot be judged by 2 of at least 3 seeds") == 2
    assert "too few to say" in last


def test_by_length_it_is_said_plainly_who_is_behind():
    last = STUDY.findings(STUDY.tables(rows_with(0.02)))[2]
    assert last.startswith("Consensus is below SimPO in accuracy with 40 % flipped by length (−2.8 points")
    assert "area under ROC of 0.3 (below 0.5: the direction itself is the wrong one)" in last
    assert "above SimPO" in STUDY.findings(STUDY.tables(rows_with(0.02, length_lead=0.02)))[2]


def test_nothing_measured_is_said_in_three_sentences():
    found = STUDY.findings(STUDY.tables([]))
    assert len(found) == 3
    assert "not measured" in found[0]


def test_variants_are_set_beside_the_usual_one_and_never_among_the_methods():
    rows = rows_with(0.02)
    rows += [run_row(OURS, "at random", 0.4, seed, 0.7 + 0.001 * seed, "drop") for seed in range(5)]
    rows += [run_row("consensus_gapo", "at random", 0.4, seed, 0.75, "GAPO's gap") for seed in range(5)]
    found = STUDY.tables(rows)
    drop = first(found["variants"], rate=0.4, variant="drop")
    assert drop["gain"] == pytest.approx(-0.04)
    assert first(found["variants"], rate=0.4, variant=USUAL)["gain"] is None
    assert {row["variant"] for row in where(found["variants"], rate=0.4)} == {USUAL, "drop", "GAPO's gap"}
    ours = first(found["accuracy"], flips="at random", rate=0.4, method=OURS)
    assert ours["accuracy"] == pytest.approx(0.742)
    assert {row["method"] for row in found["accuracy"]} == {OURS, *OTHERS}


def test_estimates_stand_beside_the_true_share():
    found = STUDY.tables(rows_with(0.02))
    assert [row["share"] for row in where(found["estimates"], line="true")] == [0.2, 0.4]
    assert {row["line"] for row in found["estimates"]} == {"true", "estimated, at random", "estimated, by length"}


def test_the_other_methods_runs_are_those_of_noise(tmp_path):
    setting = Setting(MINI, Store(tmp_path), {}, 1)
    theirs = {task.address for task in tasks_of([CATALOGUE["noise"]], setting)}
    for task in tasks_of([STUDY], setting):
        assert (task.address in theirs) is (task.recipe["objective"]["name"] in OTHERS)


def test_what_is_not_tuned_has_the_choice_of_what_it_is_without_doubt():
    tuned = {"simpo": Choice(3e-4, {"beta": 4.0, "gamma_beta_ratio": 0.1}), "gapo": Choice(1e-4, {"beta": 7.0})}
    ours, simpo, gapo = (recipe_of(Cell(name), MINI, 0, tuned) for name in ("consensus", "simpo", "consensus_gapo"))
    assert ours["train"]["learning_rate"] == simpo["train"]["learning_rate"] == 3e-4
    assert {**ours["objective"], "name": "simpo"} == simpo["objective"]
    assert recipe_hash(ours) != recipe_hash(simpo)
    assert (gapo["train"]["learning_rate"], gapo["objective"]["beta"]) == (1e-4, 7.0)
