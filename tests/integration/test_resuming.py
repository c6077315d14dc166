"""A trainer that goes on from a checkpoint: random numbers, choices, baselines, data."""

import json

import pytest
import torch

import gapo.training.choices
from gapo.anchor.engines import Choice
from gapo.errors import InputError
from gapo.training.step import StepPlan
from runs_of_tests import StopAfter, text_rows, trainer, weights

SAVING = {"max_steps": 6, "save_strategy": "steps", "save_steps": 3, "dtype": torch.float32}


def cut_and_resumed(folder, *, change=None, **options):
    """A run that was stopped after step 4 (its checkpoint is of step 3) and a new trainer that goes on."""
    trainer(folder, **options, extra_callbacks=[StopAfter(4)]).train()
    if change is not None:
        change()
    again = trainer(folder, **options)
    again.train(resume_from_checkpoint=True)
    return again


def test_random_numbers_drawn_ahead_of_a_step_go_on_where_they_were(tmp_path, monkeypatch):
    drawn = []
    prepare = StepPlan.prepare

    def drawing(self, *arguments):
        drawn.append(torch.rand(()).item())
        return prepare(self, *arguments)

    monkeypatch.setattr(StepPlan, "prepare", drawing)
    whole = trainer(tmp_path / "whole", **SAVING)
    torch.manual_seed(123)  # what was drawn before training does not matter
    whole.train()
    once = list(drawn)
    drawn.clear()
    cut_and_resumed(tmp_path / "cut", **SAVING, change=lambda: torch.manual_seed(5))
    assert drawn[:4] + drawn[5:] == once[:4] + once[4:]
    assert drawn[3] == drawn[4] == once[3]  # step 4 was taken twice
    states = [torch.load(tmp_path / name / "checkpoints" / "checkpoint-6" / "rng_state.pth", weights_only=False)
              for name in ("whole", "cut")]  # fmt: skip
    assert torch.equal(states[0]["cpu"], states[1]["cpu"])
    assert states[0]["python"] == states[1]["python"]


def test_the_engine_is_the_one_the_run_began_with_whatever_memory_is_free_now(tmp_path, monkeypatch):
    whole = trainer(tmp_path / "whole", **SAVING)
    assert whole.engine_choice.name == "bank"
    whole.train()

    def no_memory_left():
        monkeypatch.setattr(
            gapo.training.choices, "choose_engine", lambda *_, **__: Choice("two_pass", None, "no memory is free")
        )

    again = cut_and_resumed(tmp_path / "cut", **SAVING, change=no_memory_left)
    assert again.engine_choice.name == whole.engine_choice.name == "bank"
    assert again.engine_choice.bank_dtype == whole.engine_choice.bank_dtype
    assert "no memory is free" not in again.engine_choice.reason
    assert again.plan.engine.name == "bank"
    assert torch.equal(weights(again), weights(whole))


def test_the_layout_is_the_one_the_run_began_with(tmp_path):
    options = {**SAVING, "objective": "simpo"}
    trainer(tmp_path, **options, shared_prefix="off", extra_callbacks=[StopAfter(4)]).train()
    again = trainer(tmp_path, **options)
    assert again.layout.shared
    again.train(resume_from_checkpoint=True)
    assert not again.layout.shared
    assert not again.data_collator.shared


def test_drift_is_measured_from_where_the_run_began_also_with_another_model_in_hand(tmp_path):
    options = {**SAVING, "logging_steps": 1, "objective": "simpo"}
    whole = trainer(tmp_path / "whole", **options)
    whole.train()
    trainer(tmp_path / "cut", **options, extra_callbacks=[StopAfter(4)]).train()
    again = trainer(tmp_path / "cut", **options, model=whole.model)  # a trained one, not the start model
    again.train(resume_from_checkpoint=True)
    drifts = [
        [json.loads(line)["drift"] for line in (tmp_path / name / "steps.jsonl").read_text().splitlines()]
        for name in ("whole", "cut")
    ]
    assert drifts[0] == drifts[1]
    assert all(drift > 0 for drift in drifts[0])


def test_the_log_goes_on_from_its_last_line(tmp_path):
    options = {**SAVING, "logging_steps": 5}
    whole = trainer(tmp_path / "whole", **options)
    whole.train()
    again = cut_and_resumed(tmp_path / "cut", **options)
    logs = [[line for line in run.state.log_history if "loss" in line] for run in (whole, again)]
    assert len(logs[0]) == 1
    assert logs[0] == logs[1]


def test_other_pairs_are_refused(tmp_path):
    trainer(tmp_path, **SAVING).train()
    with pytest.raises(InputError, match="the training pairs are not those"):
        trainer(tmp_path, text_rows(seed=9), **SAVING).train(resume_from_checkpoint=True)


def test_a_checkpoint_asked_for_by_name_must_be_whole(tmp_path):
    trainer(tmp_path, **SAVING).train()
    checkpoint = tmp_path / "checkpoints" / "checkpoint-3"
    (checkpoint / "optimizer.pt").write_bytes(b"")
    with pytest.raises(InputError, match=r"is not a whole checkpoint: optimizer.pt has 0 of \d+ bytes"):
        trainer(tmp_path, **SAVING).train(resume_from_checkpoint=str(checkpoint))


def test_a_new_run_in_an_old_folder_never_resumes_the_old_one(tmp_path):
    trainer(tmp_path / "one", **SAVING).train()
    again = cut_and_resumed(tmp_path / "one", **SAVING, learning_rate=1e-4)
    aside = tmp_path / "one" / "checkpoints.1"
    assert sorted(path.name for path in aside.iterdir()) == ["checkpoint-3", "checkpoint-6"]
    whole = trainer(tmp_path / "other", **SAVING, learning_rate=1e-4)
    whole.train()
    assert torch.equal(weights(again), weights(whole))


def test_the_limit_on_checkpoints_is_kept_and_written_down(tmp_path):
    run = trainer(tmp_path, **{**SAVING, "save_steps": 1}, save_total_limit=2)
    run.train()
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["checkpoint-5", "checkpoint-6"]
    kept = torch.load(tmp_path / "checkpoints" / "checkpoint-6" / "training_args.bin", weights_only=False)
    assert kept.save_total_limit == run.args.save_total_limit == 2


@pytest.mark.parametrize("option", ["enable_jit_checkpoint", "ignore_data_skip"])
def test_what_would_make_a_resumed_run_another_one_is_refused(tmp_path, option):
    with pytest.raises(InputError, match=f"{option} is refused"):
        trainer(tmp_path, **{option: True})
