"""Killed at any moment, `gapo train --resume` ends with the bits of a run that nobody killed."""

import random
import shutil

import pytest

import kills
from gapo.training.checkpoints import newest_whole
from kills import Point

KILLS = 4  # for each of the settings below
SETTINGS = {
    "two_pass": ["objective.name=gapo", "anchor.engine=two_pass"],
    "bank": ["objective.name=gapo", "anchor.engine=bank"],
    "streaming in mixed precision": ["objective.name=gapo", "anchor.engine=streaming", "train.precision=mixed"],
    "alpha_dpo": ["objective.name=alpha_dpo", "train.eval_strategy=steps", "train.eval_steps=3"],
    "dpo with adapters": ["objective.name=dpo", "model.lora={r: 2, target_modules: [q_proj, v_proj]}"],
    "simpo with sam": ["objective.name=simpo", "train.sam_radius=0.05", "train.save_total_limit=1"],
}


@pytest.fixture(scope="module", autouse=True)
def server():
    kills.start_server()


@pytest.fixture(params=list(SETTINGS))
def place(request, tmp_path):
    """A run that nobody killed stands in TRUTH."""
    return truth(tmp_path / "place", *SETTINGS[request.param], count=True)


def truth(folder, *arguments, count=False):
    place = kills.make_place(folder, *arguments)
    assert place.run(count=count) == 0, place.words
    (folder / "OUT").rename(folder / "TRUTH")
    shutil.rmtree(folder / "cache", ignore_errors=True)  # reference log-probs are computed anew
    return place


def assert_same(place):
    expected, found = (kills.content(place.folder / name) for name in ("TRUTH", "OUT"))
    assert sorted(found) == sorted(expected)
    assert [name for name in found if found[name] != expected[name]] == []


def test_killed_at_random_calls_and_random_times_it_ends_with_the_same_bits(place):
    """The first kill comes in the middle of training, so that there is something to go on from."""
    rng = random.Random(str(place.arguments))
    assert place.run("--resume", point=Point(rng.randint(place.calls * 3 // 10, place.calls * 6 // 10))) == -9
    went_on = [False]
    while len(went_on) < KILLS:
        if len(went_on) < KILLS - 1:
            code = place.run("--resume", point=Point(rng.randint(1, place.calls // 2)))
        else:
            code = place.run("--resume", seconds=rng.uniform(0.02, 0.6) * place.took[0])
        went_on.append("going on from" in place.words)
        if code == 0:  # it was finished before the moment came
            went_on.pop()
            assert_same(place)
            shutil.rmtree(place.folder / "OUT")
        else:
            assert code == -9, place.words
    assert any(went_on)
    assert place.run("--resume") == 0, place.words
    assert_same(place)


BEGINNING = {
    "while the texts are written": Point(1, "pyarrow/parquet/core.py", "write_table"),
    "while the start is written": Point(2, "pyarrow/parquet/core.py", "write_table"),
}
CHECKPOINT = {  # from its first file to the deletion of an older one
    "before the model": Point(1, "transformers/trainer.py", "save_model"),
    "after the model": Point(1, "transformers/trainer.py", "_save_optimizer_and_scheduler"),
    "inside the optimiser's file": Point(2, "torch/serialization.py", "_save"),
    "after the optimiser": Point(1, "transformers/trainer.py", "_save_rng_state"),
    "before Trainer's state": Point(1, "transformers/trainer_callback.py", "save_to_json"),
    "before the list of files": Point(1, "training/checkpoints.py", "seal"),
    "while the list is made": Point(3, "gapo/storage.py", "sha256"),
    "before the first could go": Point(1, "training/checkpoints.py", "rotate"),
    "before old ones go": Point(1, "training/checkpoints.py", "rotate"),
    "while an old one goes": Point(2, "shutil.py", "_rmtree_safe_fd", inside=("rotate", "spared")),
}
STEP = {
    "inside the displaced forward": Point(2, "model/policy.py", "pair_logps", inside=("__call__", "moved")),
    "while the record is written": Point(2, "pyarrow/parquet/core.py", "write_table", inside=("write_pairs", "start")),
    "while a line is written": Point(5, "training/record.py", "_plain"),
    "in the optimiser": Point(2, "torch/optim/adam.py", "adam"),
}
GOING_ON = {
    "while the record is cut": Point(1, "training/record.py", "read_steps"),
    "while the state is read": Point(1, "training/state.py", "restore_state"),
    "while the optimiser is read": Point(1, "transformers/trainer.py", "_load_optimizer_and_scheduler"),
}
END = {
    "before the last but one goes": Point(1, "training/checkpoints.py", "remove"),
    "while the model is written": Point(1, "transformers/trainer.py", "_save", inside=("_carried_out", "evals")),
    "before the held-out pairs": Point(1, "gapo/storage.py", "whole_file", inside=("_carried_out", "evals")),
    "before the card": Point(1, "training/card.py", "model_card"),
    "before the result": Point(2, "gapo/storage.py", "whole_file", inside=("_carried_out", "evals")),
    "while the report is written": Point(1, "report/page.py", "write_report"),
}


@pytest.mark.parametrize("engine", ["two_pass", "bank"])
def test_killed_at_every_place_that_matters_it_ends_with_the_same_bits(tmp_path, engine):
    place = truth(tmp_path / "place", "objective.name=gapo", f"anchor.engine={engine}", "train.save_total_limit=1")
    points = BEGINNING | STEP | CHECKPOINT | GOING_ON | END if engine == "two_pass" else STEP
    steps = [0]
    for name, point in points.items():
        assert place.run("--resume", point=point) == -9, f"{name}: {place.words}"
        newest = newest_whole(place.folder / "OUT" / "checkpoints")
        steps.append(int(newest.name.rpartition("-")[2]) if newest else 0)
    assert steps == sorted(steps)  # nothing that was whole is lost, also where one checkpoint alone is kept
    assert place.run("--resume") == 0, place.words
    if engine == "two_pass":
        assert "is finished; this is its result" in place.words
        assert steps[-1] == 8
    assert_same(place)


def test_a_half_written_checkpoint_is_skipped_with_a_word(tmp_path):
    place = truth(tmp_path / "place", "objective.name=simpo")
    assert place.run(point=Point(2, "transformers/trainer.py", "_save_rng_state")) == -9
    assert sorted(path.name for path in (place.folder / "OUT" / "checkpoints").iterdir()) == [
        "checkpoint-2",
        "checkpoint-4",
    ]
    assert place.run() == 2
    assert "OUT holds a run that is not finished; go on with --resume" in place.words
    assert place.run("--resume") == 0
    assert "checkpoint-4 is not whole and is skipped: its list files.json is missing" in place.words
    assert "going on from OUT/checkpoints/checkpoint-2" in place.words
    assert_same(place)


def test_of_several_runs_finished_ones_are_told_again_and_the_others_go_on(tmp_path):
    place = truth(tmp_path / "place", "objective.name=[simpo,dpo]")
    assert place.run(point=Point(12, "training/bookkeeping.py", "on_step_end")) == -9
    assert (place.folder / "OUT" / "simpo" / "evals.json").is_file()
    assert not (place.folder / "OUT" / "dpo" / "evals.json").is_file()
    assert place.run() == 2
    assert "OUT holds a run that is not finished" in place.words
    assert place.run("--resume") == 0
    assert "OUT/simpo is finished; this is its result" in place.words
    assert "going on from OUT/dpo/checkpoints/checkpoint-2" in place.words
    assert_same(place)
