"""`consensus` through the trainer: what judges, what is written down, and that a resumed run is the same run."""

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from gapo.consensus.judging import judged, sketches_of
from gapo.consensus.mixture import Mixture
from gapo.errors import InputError
from gapo.training import doubts
from gapo.training.config import PreferenceConfig
from gapo.training.dataset import prompt_numbers
from gapo.training.doubts import judging_forwards, scope_of
from runs_of_tests import StopAfter, text_rows, trainer, weights

SGD = {"optim": "sgd", "learning_rate": 0.1}


def columns(folder):
    return pq.read_table(folder / "pairs.parquet").to_pydict()


def certain(monkeypatch, wrong):
    """As if the judgement had been this, for every pair alike."""
    known = Mixture("normal", 0.1, (1.0,), (1.0,), 1.0)

    def judgement(run):
        count = len(run.train_dataset)
        both = torch.full((2, count), wrong, dtype=torch.float64)
        return doubts.Judgement(both[0], both[1], known) if run.objective.watched else None

    monkeypatch.setattr("gapo.training.trainer.judgement_for", judgement)


@pytest.mark.parametrize("correct", [True, False])
def test_where_nothing_is_doubted_it_is_simpo(tmp_path, monkeypatch, correct):
    certain(monkeypatch, 0.0)
    runs = []
    for name, knobs in (("simpo", {}), ("consensus", {"correct": correct})):
        run = trainer(tmp_path / name, objective=name, knobs=knobs, **SGD)
        run.train()
        runs.append(weights(run))
    assert torch.equal(*runs)


def test_where_every_label_is_surely_wrong_it_learns_the_opposite(tmp_path, monkeypatch):
    certain(monkeypatch, 1.0)
    rows = text_rows()
    turned = [{**row, "chosen": row["rejected"], "rejected": row["chosen"]} for row in rows]
    one = trainer(tmp_path / "one", rows, objective="consensus", **SGD)
    other = trainer(tmp_path / "other", turned, objective="simpo", **SGD)
    one.train()
    other.train()
    assert torch.allclose(weights(one), weights(other), atol=1e-10)


@pytest.mark.parametrize(
    ("judge", "scope"),
    [("start", "auto"), ("start", "top"), ("start", "full"), ("running", "auto"), ("running", "top")],
)
def test_the_record_has_every_alignment_and_doubt(tmp_path, judge, scope):
    run = trainer(
        tmp_path, text_rows(160), objective="consensus", consensus_judge=judge, consensus_scope=scope,
        per_device_train_batch_size=16, max_steps=8, dtype=torch.float32,
    )  # fmt: skip
    run.train()
    found = columns(tmp_path)
    alignment, wrong = (np.array(found[name]) for name in ("consensus", "wrong"))
    assert (np.abs(alignment) <= 1 + 1e-6).all()
    assert ((wrong >= 0) & (wrong <= 1)).all()
    lines = [json.loads(line) for line in (tmp_path / "steps.jsonl").read_text().splitlines()]
    if judge == "start":
        assert all(0 <= line["noise_rate"] <= 0.5 and line["direction_pairs"] == 160 for line in lines)
    else:
        assert lines[0]["noise_rate"] is None  # the direction is young
        assert not alignment[:16].any()


def test_the_running_step_is_the_plain_step_while_nobody_is_doubted(tmp_path):
    """The gradient comes with the judging pass there, and must be that of SimPO's own."""
    options = {"max_steps": 3, "gradient_accumulation_steps": 2, **SGD}
    one = trainer(tmp_path / "one", objective="consensus", consensus_judge="running", **options)
    other = trainer(tmp_path / "other", objective="simpo", **options)
    one.train()
    other.train()
    assert torch.allclose(weights(one), weights(other), atol=1e-10)


@pytest.mark.parametrize("judge", ["start", "running"])
def test_a_resumed_run_is_the_same_run(tmp_path, judge):
    options = {
        "objective": "consensus", "consensus_judge": judge, "max_steps": 8, "save_strategy": "steps", "save_steps": 3,
        "per_device_train_batch_size": 16, "dtype": torch.float32,
    }  # fmt: skip
    whole = trainer(tmp_path / "whole", text_rows(160), **options)
    whole.train()
    trainer(tmp_path / "cut", text_rows(160), **options, extra_callbacks=[StopAfter(7)]).train()
    again = trainer(tmp_path / "cut", text_rows(160), **options)
    again.train(resume_from_checkpoint=True)
    assert torch.equal(weights(whole), weights(again))
    assert columns(tmp_path / "whole") == columns(tmp_path / "cut")


def test_pairs_are_judged_by_those_of_their_own_subset(tmp_path):
    rows = [{**row, "subset": "even" if k % 2 else "odd"} for k, row in enumerate(text_rows(160))]
    run = trainer(tmp_path, rows, objective="consensus", consensus_within="subset", max_steps=1)
    pairs, groups = run.train_dataset.encoded, [pair.subset for pair in run.train_dataset.pairs]
    sketches = sketches_of(run.model, pairs, run.pad_id, cache=False)
    expected = judged(sketches, prompt_numbers(pairs), groups=groups)
    alone = judged(sketches, prompt_numbers(pairs))
    run.train()
    found = columns(tmp_path)
    by_id = {pair.id: k for k, pair in enumerate(pairs)}
    places = [by_id[name] for name in found["pair_id"]]
    assert found["consensus"] == pytest.approx(expected.alignment[places].tolist(), abs=1e-3)
    assert found["wrong"] == pytest.approx(expected.wrong[places].tolist(), abs=1e-2)
    assert not torch.allclose(expected.alignment, alone.alignment, atol=1e-2)


@pytest.mark.parametrize("engine", ["two_pass", "bank"])
def test_gapos_gap_is_a_factor_with_any_exact_engine(tmp_path, engine):
    run = trainer(tmp_path, text_rows(80), objective="consensus_gapo", anchor_engine=engine)
    run.train()
    found = columns(tmp_path)
    assert all(value is not None for name in ("gap", "wrong", "consensus") for value in found[name])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"consensus_judge": "nowhere"}, r"consensus_judge 'nowhere' must be start, running, or a folder"),
        ({"consensus_judge": "running", "sam_radius": 0.1}, "which SAM does not allow; use start"),
        ({"objective": "consensus_gapo", "consensus_judge": "running"}, "which an anchor does not allow; use start"),
        ({"objective": "consensus_dpo", "consensus_judge": "running"}, "which consensus_dpo does not weigh; use start"),
        ({"consensus_within": "subset"}, "no pair has a `subset`, which train.consensus_within subset judges within"),
        ({"consensus_within": "topic"}, "consensus_within must be one of all, subset, not 'topic'"),
        ({"consensus_judge": "running", "consensus_within": "subset"}, "takes consensus_judge start"),
        ({"consensus_lead": "mine"}, "consensus_lead must be one of agreed, all, not 'mine'"),
        ({"consensus_judge": "running", "consensus_scope": "states"}, "by the gradients it trains with, not by states"),
        (
            {"consensus_scope": "nothing_of_that_name"},
            r"matches no trained parameter; names look like .*; or use states, full or top",
        ),
    ],
)
def test_what_cannot_be_is_said(tmp_path, options, said):
    with pytest.raises(InputError, match=said):
        trainer(tmp_path, **{"objective": "consensus", **options}).train()


@pytest.mark.parametrize(
    ("judge", "scope", "meant", "forwards"),
    [("start", "auto", "states", 1), ("start", "top", "top", 3), ("running", "auto", "full", 0)],
)
def test_what_judges_where_nothing_is_said_and_what_it_takes(tmp_path, judge, scope, meant, forwards):
    config = PreferenceConfig(str(tmp_path), objective="consensus", consensus_judge=judge, consensus_scope=scope)
    assert scope_of(config) == meant
    assert judging_forwards(config) == forwards
    assert judging_forwards(replace(config, objective="simpo")) == 0


def test_a_dry_run_refuses_what_the_run_would(tmp_path):
    config = PreferenceConfig(str(tmp_path), objective="consensus", consensus_judge="running", consensus_scope="states")
    with pytest.raises(InputError, match="not by states"):
        judging_forwards(config)


def test_few_pairs_are_judged_with_a_word_of_warning(tmp_path, caplog):
    trainer(tmp_path, objective="consensus").train()
    assert "the direction of 16 pairs, which is mostly chance" in caplog.text
