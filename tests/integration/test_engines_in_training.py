"""Engines, layouts and precision through the trainer: the same run, whichever way it is computed."""

import json
import logging

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import tiny
from gapo.errors import InputError
from gapo.model.layout import choose_layout
from runs_of_tests import text_rows, trainer, weights

GEOMETRY = ("grad_norm", "alignment", "gap_self", "gap_others")


def trained(folder, **options):
    run = trainer(folder, **options)
    run.train()
    return weights(run), pq.read_table(folder / "pairs.parquet").to_pydict()


@pytest.mark.parametrize("name", ["gapo", "gradnorm", "length_only"])
def test_exact_engines_and_both_layouts_train_the_same_model(tmp_path, name):
    options = {"objective": name, "gradient_accumulation_steps": 2, "optim": "sgd", "learning_rate": 0.1}
    found = {
        (engine, layout): trained(tmp_path / engine / layout, anchor_engine=engine, shared_prefix=layout, **options)
        for engine in ("two_pass", "bank")
        for layout in ("on", "off")
    }
    first, columns = found["two_pass", "off"]
    for other, table in found.values():
        assert torch.allclose(first, other, atol=1e-10)
        for key in ("margin", "weight", "loss", "gap"):
            assert np.allclose(columns[key], table[key], atol=1e-10), key


@pytest.mark.parametrize("name", ["simpo", "dpo", "dr_dpo", "kto", "orpo"])
def test_sharing_the_prompt_changes_no_other_objective_either(tmp_path, name):
    one, two = (
        trained(tmp_path / layout, objective=name, shared_prefix=layout, optim="sgd", learning_rate=0.1)[0]
        for layout in ("on", "off")
    )
    assert torch.allclose(one, two, atol=1e-10)


def test_a_bank_writes_the_geometry_of_every_pair_and_two_passes_leave_it_open(tmp_path):
    _, banked = trained(tmp_path / "bank", anchor_engine="bank", max_steps=1, anchor_radius=1e-5)
    _, plain = trained(tmp_path / "two_pass", anchor_engine="two_pass", max_steps=1)
    assert all(value is None for key in GEOMETRY for value in plain[key])
    norm, cosine, own, others = (np.array(banked[key]) for key in GEOMETRY)
    assert (norm > 0).all()
    assert (np.abs(cosine) <= 1 + 1e-9).all()
    assert np.allclose(own + others, banked["gap"], rtol=1e-3, atol=1e-9)  # to first order, and the radius is small


def test_the_run_says_which_engine_and_layout_it_took_and_why(tmp_path, caplog):
    with caplog.at_level(logging.INFO, logger="gapo"):
        run = trainer(tmp_path)
    assert "anchor engine bank: gradients of 4 pairs take" in caplog.text
    assert "one row a pair" in caplog.text
    assert run.engine_choice.name == "bank"
    assert run.layout.shared
    assert trainer(tmp_path / "simpo", objective="simpo").engine_choice is None


def test_first_order_audits_its_first_step_and_warns_where_it_disagrees(tmp_path):
    run = trainer(tmp_path, anchor_engine="first_order", max_steps=2, anchor_radius=0.5)
    run.train()
    first, second = (json.loads(line) for line in (tmp_path / "steps.jsonl").read_text().splitlines())
    assert 0 < first["audit_correlation"] < 1
    assert 0 < first["audit_cosine"] < 0.99  # so far from home a first-order gap is a poor one
    assert second["audit_cosine"] is None
    assert any("first-order gaps" in warning for warning in run.books.monitors.warnings)


def test_streaming_resumes_with_the_norm_it_had(tmp_path):
    options = {"anchor_engine": "streaming", "optim": "sgd", "learning_rate": 0.1, "save_strategy": "steps"}
    whole, _ = trained(tmp_path / "whole", max_steps=4, save_steps=2, **options)
    part = trainer(tmp_path / "part", max_steps=4, save_steps=2, **options)
    part.train()
    state = json.loads((tmp_path / "part" / "checkpoints" / "checkpoint-2" / "gapo.json").read_text())
    assert state["engine"]["norm"] > 0
    again = trainer(tmp_path / "part", max_steps=4, save_steps=2, **options)
    again.train(str(tmp_path / "part" / "checkpoints" / "checkpoint-2"))
    assert torch.equal(weights(again), whole)


@pytest.mark.parametrize("engine", ["two_pass", "bank", "first_order", "streaming"])
def test_every_engine_learns_in_mixed_precision(tmp_path, engine):
    run = trainer(tmp_path, anchor_engine=engine, precision="mixed", dtype=torch.float32)
    run.train()
    assert all(p.dtype == torch.float32 for p in run.model.parameters())
    assert bool(torch.isfinite(weights(run)).all())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"precision": "bf16"}, "precision must be one of fp32, mixed"),
        ({"shared_prefix": "yes"}, "shared_prefix must be one of auto, on, off"),
        ({"anchor_bank_dtype": "fp8"}, "unknown anchor.bank_dtype 'fp8'"),
        ({"anchor_engine": "bank", "sam_radius": 0.1}, "SAM"),
        ({"anchor_engine": "streaming", "anchor_strategy": "random"}, "only anchor.strategy batch"),
        ({"anchor_engine": "streaming", "objective": "gradnorm"}, "streaming never has"),
    ],
)
def test_what_does_not_go_together_is_refused_in_a_sentence(tmp_path, options, words):
    with pytest.raises(InputError, match=words):
        trainer(tmp_path, **options)


def test_a_kernel_that_ignores_the_mask_gets_two_rows_or_a_refusal():
    def flash():
        model = tiny.llama()
        model.config._attn_implementation = "flash_attention_2"
        return model

    with pytest.raises(InputError, match="flash_attention_2 does not take the mask"):
        choose_layout(flash(), tiny.random_pairs(2), tiny.PAD, "on")
    assert not choose_layout(flash(), tiny.random_pairs(2), tiny.PAD).shared


def test_the_record_of_a_run_on_rows_of_text(tmp_path):
    """Micro-batches are cut by length inside; the record keeps the order of the data loader."""
    rows = text_rows(8)
    one, other = (
        trained(
            tmp_path / str(size), rows=rows, per_device_train_batch_size=size, gradient_accumulation_steps=8 // size
        )
        for size in (8, 2)
    )
    assert one[1]["pair_id"] == other[1]["pair_id"]
    assert np.allclose(one[1]["margin"], other[1]["margin"], atol=1e-10)
    assert torch.allclose(one[0], other[0], atol=1e-9)
