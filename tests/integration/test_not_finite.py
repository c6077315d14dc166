"""Overflow, underflow and NaN in log-probs, gradients and weights: the run stops at that step and names the pairs."""

import json
import math
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

import gapo.anchor.forwards
import tiny
from gapo.errors import InputError, TrainingStopped
from gapo.training.checkpoints import newest_whole
from poison import BreakWeight, poison_pairs
from runs_of_tests import text_rows, trainer, weights

ROWS = text_rows(16)
STEP = 3  # the one that goes wrong, of four
ENGINES = ("two_pass", "bank", "first_order", "streaming")
ANCHORED = {engine: {"objective": "gapo", "anchor_engine": engine} for engine in ENGINES}
METHODS = {
    **ANCHORED,
    "simpo": {"objective": "simpo"},
    "dpo": {"objective": "dpo"},
    "dr_dpo": {"objective": "dr_dpo"},  # one bad pair spoils the loss of all
    "sam": {"objective": "simpo", "sam_radius": 0.05},
    "gapo_sam": {"objective": "gapo", "anchor_engine": "two_pass", "sam_radius": 0.05},
}
KNOWS_EACH_GRADIENT = ("bank", "first_order", "streaming")
SAVING = {"save_strategy": "steps", "save_steps": 1, "save_total_limit": 2}


def made(folder, method="simpo", **options):
    """Two micro-batches of two pairs a step, in float32."""
    two_by_two = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "max_steps": 4, "drift_pairs": 0}
    return trainer(folder, ROWS, dtype=torch.float32, **{**two_by_two, **METHODS[method], **options})


@pytest.fixture(scope="module")
def order(tmp_path_factory):
    """The pairs of each step, which the seed alone decides."""
    folder = tmp_path_factory.mktemp("order")
    made(folder).train()
    table = pq.read_table(folder / "pairs.parquet").to_pydict()
    return {step: [i for s, i in zip(table["step"], table["pair_id"], strict=True) if s == step] for step in (3, 4)}


def stopped(run, folder, *, pairs, words="", step=STEP):
    """Train until it stops; the record has the steps before, whole, and the weights are those of the step before."""
    with pytest.raises(TrainingStopped) as caught:
        run.train()
    error = caught.value
    assert str(error).startswith(f"step {step}: ")
    assert words in str(error)
    assert error.step == step
    assert error.pairs == pairs
    assert all(name in str(error) for name in pairs)
    assert run.state.global_step == step - 1
    lines = [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]
    table = pq.read_table(folder / "pairs.parquet")
    assert [line["step"] for line in lines] == list(range(1, step))
    assert table["step"].to_pylist() == [s for s in range(1, step) for _ in range(4)]
    for column in ("margin", "weight", "loss", "chosen_logp", "rejected_logp"):
        assert np.isfinite(table[column].to_numpy()).all()
    return error


def checkpoint_weights(run, folder):
    """Of the newest whole checkpoint, in the model's order."""
    newest = newest_whole(folder / "checkpoints")
    held = load_file(newest / "model.safetensors")
    return newest.name, torch.cat([held[name].flatten() for name, _ in run.model.named_parameters()])


@pytest.mark.parametrize("method", METHODS)
def test_log_probs_of_one_pair_stop_the_run_there_and_it_goes_on_from_the_checkpoint_before(
    method, order, tmp_path, monkeypatch
):
    guilty = order[STEP][1]
    run = made(tmp_path / "cut", method, **SAVING)
    with monkeypatch.context() as patch:
        poison_pairs(patch, run, STEP, [guilty], logps=(math.nan, -1.0))
        stopped(run, tmp_path / "cut", pairs=[guilty], words="this step's update was not made")
    name, held = checkpoint_weights(run, tmp_path / "cut")
    assert name == "checkpoint-2"
    assert torch.equal(held, weights(run))
    whole, again = made(tmp_path / "whole", method), made(tmp_path / "cut", method, **SAVING)
    whole.train()
    again.train(resume_from_checkpoint=True)
    assert torch.equal(weights(whole), weights(again))
    tables = [pq.read_table(tmp_path / name / "pairs.parquet") for name in ("whole", "cut")]
    assert tables[0].equals(tables[1])


@pytest.mark.parametrize("logps", [(-math.inf, -1.0), (-1.0, math.inf), (-3e38, 3e38)])
@pytest.mark.parametrize("method", ["simpo", "dpo", "bank"])
def test_infinite_and_overflowing_log_probs_stop_it_too(logps, method, order, tmp_path, monkeypatch):
    """chosen at -3e38 and rejected at 3e38: each is finite, the loss made of them is not."""
    guilty = order[STEP][2]
    run = made(tmp_path, method, **({"beta": 25.0} if method == "simpo" else {}))
    poison_pairs(monkeypatch, run, STEP, [guilty], logps=logps)
    if logps[0] == -3e38 and method in ANCHORED:  # margins here and at the anchor are finite, and only the gap counts
        run.train()
        finite_throughout(run, tmp_path)
    else:
        stopped(run, tmp_path, pairs=[guilty])


@pytest.mark.parametrize("value", [math.nan, 1e38])
@pytest.mark.parametrize("method", METHODS)
def test_a_gradient_that_is_not_finite_stops_the_run_before_the_update(value, method, order, tmp_path, monkeypatch):
    """1e38 is finite, its square is not: an Adam that saw it would never move that weight again."""
    guilty = order[STEP][2]
    run = made(tmp_path, method)
    poison_pairs(monkeypatch, run, STEP, [guilty], gradient=lambda flowing: torch.full_like(flowing, value))
    named = [guilty] if method in KNOWS_EACH_GRADIENT else []
    stopped(run, tmp_path, pairs=named, words="not finite" if named else "and others of the step")
    assert {int(held["step"]) for held in run.optimizer.state.values()} == {STEP - 1}
    assert_finite(run)


@pytest.mark.parametrize("method", ["simpo", "two_pass", "streaming", "sam"])
def test_one_entry_of_one_parameters_gradient_is_enough(method, tmp_path):
    run = made(tmp_path, method)

    def poisoned(gradient):
        gradient = gradient.clone()
        if run.state.global_step + 1 == STEP:
            gradient.view(-1)[7] = -math.inf
        return gradient

    run.model.model.layers[0].mlp.down_proj.weight.register_hook(poisoned)
    with pytest.raises(TrainingStopped, match=f"step {STEP}: .*not finite"):
        run.train()
    assert_finite(run)


@pytest.mark.parametrize("place", ["logps", "gradient"])
@pytest.mark.parametrize("method", ["simpo", "two_pass", "bank"])
def test_mixed_precision_stops_as_well(method, place, order, tmp_path, monkeypatch):
    guilty = order[STEP][0]
    run = made(tmp_path, method, precision="mixed")
    poisons = {"logps": {"logps": (math.nan, math.nan)}, "gradient": {"gradient": lambda g: g * math.inf}}
    poison_pairs(monkeypatch, run, STEP, [guilty], **poisons[place])
    stopped(run, tmp_path, pairs=[guilty] if place == "logps" or method == "bank" else [])


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("method", ["simpo", "two_pass", "bank"])
def test_a_broken_weight_shows_in_the_next_log_probs_and_is_named(value, method, order, tmp_path):
    run = made(tmp_path, method, extra_callbacks=[BreakWeight(STEP - 1, value)])
    said = "the update before it made weights that are not finite (model.norm.weight)"
    stopped(run, tmp_path, pairs=order[STEP], words=said)


@pytest.mark.parametrize("method", ["simpo", "two_pass", "bank"])
def test_a_weight_that_makes_log_probs_overflow_stops_the_next_step(method, tmp_path):
    run = made(tmp_path, method, extra_callbacks=[BreakWeight(STEP - 1, 3e38)])
    with pytest.raises(TrainingStopped, match=f"step {STEP}: .*not finite"):
        run.train()


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_broken_weights_are_never_written(value, tmp_path):
    """Neither as a checkpoint nor as a model; the checkpoint before loads."""
    run = made(tmp_path, extra_callbacks=[BreakWeight(STEP, value)], **SAVING)
    with pytest.raises(TrainingStopped, match=r"step 3: .* not finite \(model.norm.weight\); they are not written"):
        run.train()
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["checkpoint-1", "checkpoint-2"]
    name, held = checkpoint_weights(run, tmp_path)
    assert name == "checkpoint-2"
    assert bool(torch.isfinite(held).all())
    with pytest.raises(TrainingStopped, match="they are not written"):
        run.save_model(str(tmp_path / "model"))
    assert not (tmp_path / "model").exists()
    again = made(tmp_path, **SAVING)
    again.train(resume_from_checkpoint=True)
    assert again.state.global_step == 4


def test_an_anchor_that_is_not_finite_stops_the_run_although_its_loss_is_zero(order, tmp_path, monkeypatch):
    """-ls(beta * inf - gamma) = 0: the pair would be left out without a word."""
    run = made(tmp_path, "two_pass")
    honest = gapo.anchor.forwards.forward

    def sunk(model, batches, *rest):
        found = honest(model, batches, *rest)
        lost = torch.tensor([0.0, 0.0, -math.inf, 0.0])
        return replace(found, chosen=found.chosen + lost) if run.state.global_step + 1 == STEP else found

    monkeypatch.setattr(gapo.anchor.forwards, "forward", sunk)
    stopped(run, tmp_path, pairs=[order[STEP][2]])


def test_a_reference_that_is_not_finite_stops_the_run_at_its_pair(order, tmp_path):
    run = made(tmp_path, "dpo")
    reference = run.references.of(run.train_dataset)
    place = [pair.id for pair in run.train_dataset.encoded].index(order[STEP][3])
    reference.chosen[place] = -math.inf  # a gain of +inf, a loss of 0
    stopped(run, tmp_path, pairs=[order[STEP][3]])


@pytest.mark.parametrize("method", ["simpo", "dpo", *ANCHORED])
def test_a_vanishing_probability_is_a_number_like_others(method, order, tmp_path, monkeypatch):
    """log-probs of -1e30: no NaN in the record, in the weights, or in the optimiser."""
    run = made(tmp_path, method)
    poison_pairs(monkeypatch, run, STEP, order[STEP][:2], logps=(-1e30, -1e30))
    run.train()
    finite_throughout(run, tmp_path)


@pytest.mark.parametrize("scale", [0.0, 1e-42])
@pytest.mark.parametrize("engine", ANCHORED)
def test_no_slope_is_no_direction_and_no_gap_but_never_a_nan(engine, scale, order, tmp_path, monkeypatch):
    """A gradient of exactly 0, and one so small that radius / ||g|| overflows in float32."""
    monkeypatch.setattr("gapo.anchor.banked.pairs_at_once", lambda model: 1)  # the head's are not autograd's there
    run = made(tmp_path, engine)
    poison_pairs(monkeypatch, run, STEP, order[STEP], gradient=lambda flowing: flowing * scale)
    run.train()
    table = finite_throughout(run, tmp_path)
    here = [i for i, step in enumerate(table["step"]) if step == STEP]
    assert np.allclose([table["gap"][i] for i in here], 0, atol=1e-30)
    assert np.allclose([table["weight"][i] for i in here], 2.5 / (1 + math.exp(-0.1)), rtol=1e-6)
    if scale == 0 and engine != "streaming":  # which goes by the norm of the steps before
        assert any("there is no anchor and every gap is 0" in said for said in run.books.monitors.warnings)


def finite_throughout(run, folder):
    table = pq.read_table(folder / "pairs.parquet").to_pydict()
    assert table["step"] == [step for step in (1, 2, 3, 4) for _ in range(4)]
    assert all(np.isfinite(table[column]).all() for column in ("margin", "weight", "loss", "chosen_logp"))
    assert_finite(run)
    return table


def assert_finite(run):
    """Weights, and what the optimiser keeps of their gradients."""
    assert bool(torch.isfinite(weights(run)).all())
    assert all(bool(torch.isfinite(v).all()) for held in run.optimizer.state.values() for v in held.values())


def test_a_start_model_with_broken_weights_is_refused_in_words(tmp_path):
    model = tiny.llama(dtype=torch.float32)
    with torch.no_grad():
        model.model.norm.weight[0] = math.nan
    with pytest.raises(InputError, match="log-probs that are not finite; its weights are damaged"):
        trainer(tmp_path, ROWS, model=model)
