"""Training end to end on tiny models: what must hold whatever the objective, and what Trainer promises."""

import json
import math
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
import yaml
from transformers import EarlyStoppingCallback, TrainerCallback

import gapo
import literal
import tiny
from gapo.errors import InputError, TrainingStopped
from gapo.model.wheel import folder_name
from gapo.objectives import objectives
from gapo.training.card import model_card
from gapo.training.record import PAIR_SCHEMA
from runs_of_tests import StopAfter, text_rows, trainer, weights

NAMES = sorted(objectives())


@pytest.mark.parametrize("name", NAMES)
def test_results_do_not_depend_on_how_a_step_is_cut_into_micro_batches(name, tmp_path):
    """8 pairs a step as 8, 4+4 and 2+2+2+2: the same weights after three steps, and the same record."""
    found = []
    for batch, accumulation in ((8, 1), (4, 2), (2, 4)):
        run = trainer(
            tmp_path / f"{batch}",
            objective=name,
            per_device_train_batch_size=batch,
            gradient_accumulation_steps=accumulation,
            optim="sgd",
        )
        run.train()
        table = pq.read_table(tmp_path / f"{batch}" / "pairs.parquet").to_pydict()
        found.append((weights(run), np.array(table["weight"]), table["pair_id"]))
    for other in found[1:]:
        assert other[2] == found[0][2]
        assert np.allclose(other[1], found[0][1], atol=1e-9)
        assert torch.allclose(other[0], found[0][0], atol=1e-9)


def test_a_short_last_step_counts_its_pairs_equally(tmp_path):
    rows = text_rows(10)
    found = []
    for batch, accumulation in ((10, 1), (4, 3), (3, 4)):
        run = trainer(
            tmp_path / f"{batch}",
            rows,
            per_device_train_batch_size=batch,
            gradient_accumulation_steps=accumulation,
            anchor_batches=12,
            max_steps=2,
            optim="sgd",
        )
        run.train()
        found.append(weights(run))
    assert torch.allclose(found[1], found[0], atol=1e-9)
    assert torch.allclose(found[2], found[0], atol=1e-9)


def test_one_gapo_step_is_the_literal_one(tmp_path):
    """SGD at rate 1: the weights move by minus the literal gradient."""
    model = tiny.llama()
    run = trainer(
        tmp_path, text_rows(4), model=model, max_steps=1, optim="sgd", learning_rate=1.0, lr_scheduler_type="constant"
    )
    pairs = run.train_dataset.encoded
    truth = torch.autograd.grad(literal.loss(model, pairs, 0.05, 2.5, 0.1), list(model.parameters()))
    before = weights(run).clone()
    run.train()
    moved = before - weights(run)
    assert torch.allclose(moved, torch.cat([g.flatten() for g in truth]), atol=1e-9)


@pytest.mark.parametrize("name", ["simpo", "dpo", "gapo", "dr_dpo"])
def test_sam_takes_the_gradient_uphill_and_steps_from_home(name, tmp_path):
    radius = 0.1
    runs = {}
    for sam in (0.0, radius):
        runs[sam] = trainer(
            tmp_path / f"{sam}",
            text_rows(4),
            objective=name,
            sam_radius=sam,
            max_steps=1,
            optim="sgd",
            learning_rate=1.0,
            lr_scheduler_type="constant",
        )
    start = weights(runs[0.0]).clone()
    runs[0.0].train()
    uphill = start - weights(runs[0.0])  # lr 1: the plain gradient
    runs[radius].train()
    sam_gradient = start - weights(runs[radius])
    if name == "simpo":  # the literal one: the gradient of the same loss at theta + rho*g/||g||
        model = tiny.llama()
        with torch.no_grad():
            offset = 0
            for p in model.parameters():
                p += (radius * uphill / uphill.norm())[offset : offset + p.numel()].view_as(p)
                offset += p.numel()
        pairs = runs[radius].train_dataset.encoded
        loss = sum(-torch.nn.functional.logsigmoid(2.5 * literal.margin(model, p) - 0.25) for p in pairs) / 4
        truth = torch.autograd.grad(loss, list(model.parameters()))
        assert torch.allclose(sam_gradient, torch.cat([g.flatten() for g in truth]), atol=1e-9)
    assert not torch.allclose(sam_gradient, uphill, atol=1e-6)
    assert torch.nn.functional.cosine_similarity(sam_gradient, uphill, dim=0) > 0.5


def test_a_resumed_run_ends_bit_for_bit_where_an_uninterrupted_one_does(tmp_path):
    options = {
        "objective": "alpha_dpo",
        "max_steps": 6,
        "dtype": torch.float32,
        "save_strategy": "steps",
        "save_steps": 3,
        "eval_rows": text_rows(6, seed=5),
    }
    whole = trainer(tmp_path / "whole", **options)
    whole.train()
    first = trainer(tmp_path / "cut", **options, extra_callbacks=[StopAfter(4)])
    first.train()
    second = trainer(tmp_path / "cut", **options)
    second.train(resume_from_checkpoint=True)
    assert torch.equal(weights(whole), weights(second))
    tables = [pq.read_table(tmp_path / name / "pairs.parquet") for name in ("whole", "cut")]
    assert tables[0].equals(tables[1])
    lines = [(tmp_path / name / "steps.jsonl").read_text().splitlines() for name in ("whole", "cut")]
    assert [json.loads(line)["loss"] for line in lines[0]] == [json.loads(line)["loss"] for line in lines[1]]
    assert second.plan.moments == whole.plan.moments


def test_the_same_seed_gives_the_same_bits(tmp_path):
    found = []
    for name in ("a", "b"):
        run = trainer(tmp_path / name, dtype=torch.float32)
        run.train()
        found.append(weights(run))
    assert torch.equal(*found)
    assert (tmp_path / "a" / "pairs.parquet").read_bytes() == (tmp_path / "b" / "pairs.parquet").read_bytes()


def test_the_record_has_every_column_and_a_row_for_each_pair_and_step(tmp_path):
    noisy, mask = gapo.flip(text_rows(16), 0.25, seed=1)
    run = trainer(tmp_path, noisy, max_steps=4, logging_steps=1)
    run.train()
    table = pq.read_table(tmp_path / "pairs.parquet")
    assert table.schema.names == PAIR_SCHEMA.names
    rows = table.to_pydict()
    assert len(rows["step"]) == 16
    assert sorted(rows["pair_id"]) == sorted(noisy.ids)
    flipped = dict(zip(noisy.ids, mask, strict=True))
    assert rows["flipped"] == [flipped[i] for i in rows["pair_id"]]
    gap = np.array(rows["margin"]) - np.array(rows["anchor_margin"])
    assert np.allclose(gap, rows["gap"], atol=1e-12)
    assert np.allclose(rows["weight"], 2.5 / (1 + np.exp(2.5 * gap - 0.1)), atol=1e-9)
    margin = np.array(rows["chosen_logp"]) / rows["chosen_tokens"] - np.array(rows["rejected_logp"]) / np.array(
        rows["rejected_tokens"]
    )
    assert np.allclose(margin, rows["margin"], atol=1e-12)
    lines = [json.loads(line) for line in (tmp_path / "steps.jsonl").read_text().splitlines()]
    wanted = "step epoch loss margin gap_mean gap_std weight_mean weight_std weight_min weight_max self_check_ratio"
    wanted += " chosen_logp rejected_logp accuracy drift grad_norm tokens_per_second learning_rate"
    for line in lines:
        assert all(line[key] is not None for key in wanted.split()), line
    assert lines[0]["drift"] > 0
    assert lines[0]["self_check_ratio"] == pytest.approx(1, abs=0.3)


@pytest.mark.parametrize("name", ["simpo", "dpo"])
def test_what_a_method_has_not_is_null_in_the_record(name, tmp_path):
    trainer(tmp_path, objective=name, max_steps=1).train()
    rows = pq.read_table(tmp_path / "pairs.parquet").to_pydict()
    assert rows["gap"] == rows["anchor_margin"] == [None] * 4
    assert rows["flipped"] == [None] * 4
    assert json.loads((tmp_path / "steps.jsonl").read_text())["gap_mean"] is None


@pytest.mark.parametrize("name", ["gapo", "dpo", "kto"])
def test_evaluation_early_stop_and_best_model_work(name, tmp_path):
    run = trainer(
        tmp_path,
        objective=name,
        eval_rows=text_rows(6, seed=3),
        max_steps=6,
        eval_strategy="steps",
        eval_steps=1,
        save_strategy="steps",
        save_steps=1,
        save_total_limit=2,
        load_best_model_at_end=True,
        metric_for_best_model="eval_accuracy",
        greater_is_better=True,
        learning_rate=0.0,
        extra_callbacks=[EarlyStoppingCallback(early_stopping_patience=2)],
    )
    run.train()
    assert run.state.global_step < 6  # nothing improves at a rate of 0
    metrics = run.evaluate()
    assert {"eval_loss", "eval_accuracy", "eval_margin", "eval_reward_margin"} <= set(metrics)
    folders = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert all(name.startswith("checkpoint-") for name in folders)
    assert len(folders) <= 2


def test_evaluation_agrees_with_the_literal_margin(tmp_path):
    model = tiny.llama()
    run = trainer(tmp_path, model=model, eval_rows={"a": text_rows(5, seed=3), "b": text_rows(3, seed=4)})
    metrics = run.evaluate()
    for name in ("a", "b"):
        margins = [literal.margin(model, pair).item() for pair in run.eval_dataset[name].encoded]
        assert metrics[f"eval_{name}_margin"] == pytest.approx(np.mean(margins), abs=1e-9)
        assert metrics[f"eval_{name}_accuracy"] == pytest.approx(np.mean([m > 0 for m in margins]))


def test_predict_gives_both_log_probs_of_every_pair(tmp_path):
    model = tiny.llama()
    run = trainer(tmp_path, model=model)
    output = run.predict(text_rows(5, seed=3))
    pair = run.get_test_dataloader(text_rows(5, seed=3)).dataset.encoded[2]
    assert output.predictions.shape == (5, 2)
    assert output.predictions[2, 0] == pytest.approx(literal.sequence_logp(model, pair.prompt, pair.chosen).item())
    assert "test_accuracy" in output.metrics


def test_trackers_see_our_numbers(tmp_path):
    seen = []

    class Tracker(TrainerCallback):
        def on_log(self, args, state, control, logs=None, **_):
            seen.append(logs)

    trainer(tmp_path, logging_steps=1, extra_callbacks=[Tracker()]).train()
    assert {"loss", "margin", "gap_mean", "weight_mean", "accuracy", "grad_norm"} <= set(seen[0])


def test_a_non_finite_loss_stops_the_run_with_step_and_pairs(tmp_path):
    run = trainer(tmp_path, objective="simpo", max_steps=3)

    class Poison(TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            if state.global_step == 2:
                with torch.no_grad():
                    next(iter(run.model.parameters())).fill_(float("nan"))

    run.add_callback(Poison())
    with pytest.raises(TrainingStopped, match=r"step 3: the loss is not finite for 4 pairs \([0-9a-f]{16}"):
        run.train()
    assert len(pq.read_table(tmp_path / "pairs.parquet")) == 8  # what was written stays


@pytest.mark.parametrize("engine", ["two_pass", "bank"])
def test_an_error_inside_an_anchor_leaves_the_weights_at_home(tmp_path, monkeypatch, engine):
    run = trainer(tmp_path, anchor_engine=engine)
    home = weights(run).clone()

    def failing(*_, **__):
        assert not torch.equal(weights(run), home)
        raise RuntimeError("in the displaced forward")

    monkeypatch.setattr("gapo.anchor.forwards.forward", failing)
    with pytest.raises(RuntimeError, match="displaced"):
        run.train()
    assert torch.equal(weights(run), home)


def test_an_error_under_sam_leaves_the_weights_at_home(tmp_path, monkeypatch):
    run = trainer(tmp_path, objective="simpo", sam_radius=0.5)
    home = weights(run).clone()

    def failing(*_, **__):
        assert not torch.equal(weights(run), home)
        raise RuntimeError("under sam")

    monkeypatch.setattr(type(run), "training_step", failing)
    with pytest.raises(RuntimeError, match="under sam"):
        run.train()
    assert torch.equal(weights(run), home)


def test_lora_trains_adapters_only_and_its_reference_is_the_start_model(tmp_path):
    from peft import LoraConfig

    lora = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    run = trainer(tmp_path, objective="dpo", dtype=torch.float32, extra_peft_config=lora, eval_rows=text_rows(4, 9))
    frozen = {n: p.clone() for n, p in run.model.named_parameters() if not p.requires_grad}
    run.train()
    assert all(torch.equal(p, frozen[n]) for n, p in run.model.named_parameters() if not p.requires_grad)
    full = trainer(tmp_path / "full", objective="dpo", dtype=torch.float32)
    full.train()
    assert torch.allclose(run.plan.reference.chosen, full.plan.reference.chosen, atol=1e-5)
    run.evaluate(text_rows(3, 11))  # adapters off: a new set can still be compared with the start model
    run.save_model(str(tmp_path / "model"))
    assert (tmp_path / "model" / "adapter_model.safetensors").is_file()


def test_a_reference_model_of_ones_own_is_used(tmp_path):
    other = tiny.llama(seed=7)
    run = trainer(tmp_path, objective="dpo", extra_ref_model=other, max_steps=1)
    run.train()
    pair = run.train_dataset.encoded[0]
    wanted = literal.sequence_logp(other, pair.prompt, pair.chosen).item()
    assert run.plan.reference.chosen[0].item() == pytest.approx(wanted, abs=1e-9)


def test_gradient_checkpointing_changes_nothing(tmp_path):
    found = []
    for on in (False, True):
        run = trainer(tmp_path / str(on), gradient_checkpointing=on, optim="sgd")
        run.train()
        found.append(weights(run))
    assert torch.allclose(*found, atol=1e-10)


def test_in_bf16_the_gap_is_still_measured_in_fp32(tmp_path):
    """The margins are fp32's own; the gap is measured along a direction computed in bf16, a little beside it."""
    margins, gaps = [], []
    for precision in ("fp32", "mixed"):
        run = trainer(tmp_path / precision, dtype=torch.float32, precision=precision, max_steps=1)
        run.train()
        table = pq.read_table(tmp_path / precision / "pairs.parquet")
        margins.append(np.array(table["margin"].to_pylist()))
        gaps.append(np.array(table["gap"].to_pylist()))
    assert np.allclose(*margins, atol=1e-6)
    assert np.allclose(*gaps, rtol=0.02)


def test_bf16_is_another_word_for_mixed_precision(tmp_path):
    assert gapo.PreferenceConfig(str(tmp_path), bf16=True, use_cpu=True).precision == "mixed"
    assert gapo.PreferenceConfig(str(tmp_path), precision="mixed", use_cpu=True).bf16


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"fp16": True}, "fp16 is refused"),
        ({"anchor_batches": 2, "gradient_accumulation_steps": 3}, "does not divide"),
        ({"anchor_radius": 0.0}, "anchor.radius"),
        ({"anchor_strategy": "bach"}, "did you mean 'batch'"),
        ({"anchor_engine": "twopass"}, "did you mean 'two_pass'"),
        ({"objective": "smpo"}, "did you mean 'simpo'"),
        ({"sam_radius": -1.0}, "sam_radius"),
        ({"knobs": {"btea": 1.0}}, "did you mean 'beta'"),
        ({"neftune_noise_alpha": 5.0}, "neftune"),
        ({"template": "chat"}, "no chat template"),
    ],
)
def test_wrong_settings_are_one_sentence_before_anything_runs(options, words, tmp_path):
    with pytest.raises(InputError, match=words):
        trainer(tmp_path, **options)


def test_bf16_weights_are_refused_with_the_way_out(tmp_path):
    with pytest.raises(InputError, match=r"model\.dtype=float32 with train\.precision=mixed"):
        trainer(tmp_path, model=tiny.llama(dtype=torch.bfloat16))


def test_prompts_longer_than_the_limit_are_left_out_or_stop_a_strict_run(tmp_path, caplog):
    rows = [*text_rows(6), {"prompt": "cat " * 40, "chosen": "yes", "rejected": "no"}]
    run = trainer(tmp_path, rows, max_prompt_length=20)
    assert len(run.train_dataset) == 6
    assert "prompt longer than the limit" in caplog.text
    with pytest.raises(InputError, match="prompt longer than the limit"):
        trainer(tmp_path, rows, max_prompt_length=20, strict=True)


def test_the_card_names_method_knobs_data_noise_and_result(tmp_path):
    noisy, _ = gapo.flip(text_rows(16), 0.25)
    run = trainer(tmp_path, noisy, eval_rows=text_rows(4, 3))
    run.train()
    run.evaluate()
    run.create_model_card()
    card = (tmp_path / "README.md").read_text()
    for words in (
        "| objective | gapo |",
        "| beta | 2.5 |",
        "4 of 16 labels are marked as flipped",
        "eval_accuracy",
        "anchor radius",
        f"| steps | {run.state.global_step} |",
        f"| epochs | {run.state.epoch:.3g} |",
    ):
        assert words in card
    assert yaml.safe_load(card.split("---")[1])["tags"] == ["gapo", "preference-optimization"]  # each once


def test_the_card_of_a_model_from_a_wheel_has_its_name_base_and_licence(tmp_path):
    run = trainer(tmp_path, text_rows(16), objective="simpo")
    run.model.config._name_or_path = f"/somewhere/models/{folder_name('smollm2-135m-instruct')}"
    card = model_card(run)
    assert "# smollm2-135m-instruct trained with simpo\n" in card
    assert "/somewhere" not in card
    assert yaml.safe_load(card.split("---")[1]) == {
        "library_name": "transformers",
        "tags": ["gapo", "preference-optimization", "simpo"],
        "base_model": "HuggingFaceTB/SmolLM2-135M-Instruct",
        "license": "apache-2.0",
    }


class FakeHub:
    """Stands where the Hub's client stands: remembers repositories and folders."""

    def __init__(self):
        self.repositories, self.folders = [], []

    def __call__(self):
        return self

    def create_repo(self, name, **_):
        self.repositories.append(name)
        return SimpleNamespace(repo_id=f"me/{name}")

    def upload_folder(self, folder_path, **_):
        self.folders.append(folder_path)
        self.files = sorted(path.name for path in Path(folder_path).iterdir())
        done = Future()
        done.set_result(None)
        return done


@pytest.mark.parametrize("during_training", [True, False])
def test_the_hub_gets_the_model_folder_and_not_the_record(during_training, tmp_path, monkeypatch):
    hub = FakeHub()
    monkeypatch.setattr("transformers.trainer.hf_api", hub)
    options = {"push_to_hub": True, "save_strategy": "steps", "save_steps": 1} if during_training else {}
    run = trainer(tmp_path / "myrun", max_steps=1, **options)
    run.train()
    if not during_training:
        run.push_to_hub()
    assert hub.repositories == ["myrun"]
    assert set(hub.folders) == {str(tmp_path / "myrun" / "model")}
    assert "model.safetensors" in hub.files
    assert run.args.output_dir == str(tmp_path / "myrun")


def test_kto_measures_its_drift_on_mismatched_pairs(tmp_path):
    """After the first step the policy has left the reference, so z is max(0, mean log-ratio on mismatched pairs)."""
    run = trainer(tmp_path, text_rows(4), objective="kto", max_steps=2, optim="sgd", learning_rate=1.0)
    start = tiny.llama()
    run.train()
    encoded = run.train_dataset.encoded
    shifted = [*encoded[1:], encoded[0]]
    ratios = [
        literal.sequence_logp(run.model, pair.prompt, getattr(other, side)).item()
        - literal.sequence_logp(start, pair.prompt, getattr(other, side)).item()
        for pair, other in zip(encoded, shifted, strict=True)
        for side in ("chosen", "rejected")
    ]
    found = run._other_replies.drift([torch.arange(4)])
    assert float(found) == pytest.approx(max(0.0, float(np.mean(ratios))), abs=1e-9)
    assert math.isfinite(float(found))


def test_in_bf16_a_policy_at_its_reference_still_costs_log_two(tmp_path):
    """Both are computed in the same precision, so that rounding does not look like a preference."""
    run = trainer(tmp_path, objective="dpo", dtype=torch.float32, bf16=True, learning_rate=0.0, max_steps=1)
    run.train()
    losses = pq.read_table(tmp_path / "pairs.parquet")["loss"].to_pylist()
    assert losses == pytest.approx([math.log(2)] * 4, abs=5e-3)


def test_more_epochs_go_on_and_the_best_model_comes_back(tmp_path):
    options = {"max_steps": -1, "save_strategy": "steps", "save_steps": 1, "eval_strategy": "steps", "eval_steps": 1}
    options |= {"eval_rows": text_rows(6, seed=3), "load_best_model_at_end": True, "learning_rate": 0.05}
    first = trainer(tmp_path, num_train_epochs=1, **options)
    first.train()
    again = trainer(tmp_path, num_train_epochs=1, **options)
    again.train(resume_from_checkpoint=True)
    assert again.state.global_step == 4
    assert torch.equal(weights(again), weights(first))
    longer = trainer(tmp_path, num_train_epochs=2, **options)
    longer.train(resume_from_checkpoint=True)
    assert longer.state.global_step == 8


def test_a_checkpoint_cut_short_is_skipped(tmp_path, caplog):
    options = {"max_steps": 4, "save_strategy": "steps", "save_steps": 2}
    whole = trainer(tmp_path, **options)
    whole.train()
    (tmp_path / "checkpoints" / "checkpoint-4" / "trainer_state.json").write_text('{"global_st')
    (tmp_path / "checkpoints" / "checkpoint-9").mkdir()
    again = trainer(tmp_path, **options)
    again.train(resume_from_checkpoint=True)
    assert caplog.text.count("is not whole and is skipped") == 2
    assert torch.equal(weights(again), weights(whole))


def test_there_must_be_a_checkpoint_to_resume_from(tmp_path):
    with pytest.raises(InputError, match="there is no checkpoint"):
        trainer(tmp_path).train(resume_from_checkpoint=True)


def test_what_was_said_before_a_checkpoint_is_not_said_again(tmp_path, caplog):
    options = {"max_steps": 4, "anchor_radius": 5.0, "save_strategy": "steps", "save_steps": 2}
    trainer(tmp_path, **options, extra_callbacks=[StopAfter(2)]).train()
    assert caplog.text.count("mean gap / (radius") == 1
    second = trainer(tmp_path, **options)
    second.train(resume_from_checkpoint=True)
    assert caplog.text.count("mean gap / (radius") == 1
    assert len(second.books.monitors.warnings) == 1


def test_sam_writes_the_step_down_at_home(tmp_path):
    """The record of the first step is that of a run without SAM."""
    tables = []
    for radius in (0.0, 0.5):
        trainer(tmp_path / str(radius), objective="simpo", sam_radius=radius, max_steps=1).train()
        tables.append(pq.read_table(tmp_path / str(radius) / "pairs.parquet"))
    assert tables[0].equals(tables[1])


@pytest.mark.parametrize("name", ["simpo", "gapo", "dr_dpo"])
def test_sam_does_not_depend_on_micro_batches_either(name, tmp_path):
    found = []
    for batch, accumulation in ((8, 1), (2, 4)):
        run = trainer(
            tmp_path / f"{batch}",
            objective=name,
            sam_radius=0.1,
            max_grad_norm=0.5,
            per_device_train_batch_size=batch,
            gradient_accumulation_steps=accumulation,
            optim="sgd",
        )
        run.train()
        found.append(weights(run))
    assert torch.allclose(*found, atol=1e-9)


def test_training_twice_works_for_kto(tmp_path):
    run = trainer(tmp_path, objective="kto", max_steps=1)
    run.train()
    run.train()


def test_a_method_without_an_anchor_takes_any_accumulation(tmp_path):
    gapo.PreferenceConfig(output_dir=str(tmp_path), objective="simpo", gradient_accumulation_steps=12)


def test_a_wrong_scope_is_wrong_before_training(tmp_path):
    with pytest.raises(InputError, match="matches no trained parameter"):
        trainer(tmp_path, anchor_scope="nowhere")


def test_drift_is_measured_at_logging_steps_given_as_a_share(tmp_path):
    trainer(tmp_path, max_steps=4, logging_steps=0.5).train()
    lines = [json.loads(line) for line in (tmp_path / "steps.jsonl").read_text().splitlines()]
    assert [line["drift"] is not None for line in lines] == [True, True, False, True]


def test_another_adapter_than_lora_is_welcome(tmp_path):
    from peft import IA3Config

    adapter = IA3Config(
        task_type="CAUSAL_LM", target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"]
    )
    run = trainer(tmp_path, dtype=torch.float32, max_steps=1, extra_peft_config=adapter)
    run.train()


def test_an_update_that_breaks_the_weights_stops_the_run_even_at_the_last_step(tmp_path):
    run = trainer(tmp_path, max_steps=1)

    class Overflow(TrainerCallback):
        def on_optimizer_step(self, args, state, control, **_):
            with torch.no_grad():
                next(iter(run.model.parameters()))[3] = float("inf")

    run.add_callback(Overflow())
    with pytest.raises(TrainingStopped, match="step 1: the update made weights that are not finite"):
        run.train()


def test_a_padding_token_the_model_does_not_know_is_not_used(tmp_path):
    tokenizer = tiny.tiny_tokenizer()
    tokenizer.add_special_tokens({"pad_token": "[NEW]"})
    assert tokenizer.pad_token_id >= tiny.VOCABULARY
    trainer(tmp_path, tokenizer=tokenizer, max_steps=1, eval_rows=text_rows(3, 5), reply_prompts=1).train()


def test_a_tokenizer_of_another_model_is_refused(tmp_path):
    tokenizer = tiny.tiny_tokenizer()
    tokenizer.add_tokens(["unheard"])
    with pytest.raises(InputError, match="do not belong together"):
        trainer(tmp_path, [{"prompt": "hello", "chosen": "unheard", "rejected": "no"}], tokenizer=tokenizer)


def test_prompt_tuning_is_refused(tmp_path):
    from peft import PromptTuningConfig

    with pytest.raises(InputError, match="prompt tuning, prefix tuning and p-tuning are refused"):
        trainer(
            tmp_path,
            dtype=torch.float32,
            extra_peft_config=PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2),
        )
