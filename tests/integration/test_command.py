"""The command line on a tiny model and on the lab: runs, errors, help."""

import json
import os
import shutil
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from gapo.cli.main import app, main
from gapo.training.record import PAIR_SCHEMA


def gapo(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)


def spoken(capsys, monkeypatch, *arguments):
    """Exit code and last words of the real entry point."""
    monkeypatch.setattr(sys, "argv", ["gapo", *arguments])
    with pytest.raises(SystemExit) as leaving:
        main()
    return leaving.value.code, capsys.readouterr().err.strip()


SMALL = ["train.max_steps=3", "train.per_device_train_batch_size=4", "train.use_cpu=true", "train.disable_tqdm=true"]


def test_a_run_on_any_folder_leaves_the_whole_run_directory(folder):
    result = gapo(
        "train", "mini", "model.name=model", "data.train=pairs.jsonl", "objective.name=gapo",
        "anchor.radius=0.05", "train.output_dir=OUT", *SMALL,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    out = folder / "OUT"
    expected = {"recipe.yaml", "environment.json", "steps.jsonl", "pairs.parquet", "evals.json", "model", "report.html"}
    assert expected <= {path.name for path in out.iterdir()}
    assert pq.read_table(out / "pairs.parquet").schema.names == PAIR_SCHEMA.names
    assert len((out / "steps.jsonl").read_text().splitlines()) == 3
    evals = json.loads((out / "evals.json").read_text())
    assert 0 <= evals["after"]["accuracy"] <= 1
    assert evals["noise"]["rate"] == 0.0
    assert "report.html" in result.output
    assert "no pairs were held out" in result.output
    assert "reward accuracy after" in (out / "model" / "README.md").read_text()
    recipe = yaml.safe_load((out / "recipe.yaml").read_text())
    assert recipe["anchor"]["radius"] == 0.05
    assert "command" in json.loads((out / "environment.json").read_text())


def test_the_same_recipe_gives_the_same_numbers_and_its_copy_repeats_it(folder):
    arguments = ["model.name=model", "data.train=pairs.jsonl", "objective.name=gapo", *SMALL]
    assert gapo("train", "mini", *arguments, "train.output_dir=a").exit_code == 0
    assert gapo("train", "a/recipe.yaml", "train.output_dir=b").exit_code == 0
    first, second = (json.loads((folder / name / "evals.json").read_text()) for name in "ab")
    assert first["after"] == second["after"]
    weights = [(folder / name / "model" / "model.safetensors").read_bytes() for name in "ab"]
    assert weights[0] == weights[1]


def test_a_share_of_the_prompts_can_be_held_out(folder):
    held = gapo("train", "mini", "model.name=model", "data.train=pairs.jsonl", "data.eval_fraction=0.3",
                "objective.name=simpo", "train.output_dir=H", *SMALL)  # fmt: skip
    assert held.exit_code == 0, held.output
    evals = json.loads((folder / "H" / "evals.json").read_text())
    assert evals["held_out"]
    assert 0 < evals["pairs"] < 40
    assert evals["noise"]["of"] == 40 - evals["pairs"]


def test_lora_is_a_line_in_the_recipe(folder):
    lora = "model.lora={r: 2, target_modules: [q_proj, v_proj]}"
    result = gapo("train", "mini", "model.name=model", lora, "data.train=pairs.jsonl", "objective.name=dpo",
                  "train.output_dir=A", *SMALL)  # fmt: skip
    assert result.exit_code == 0, result.output
    assert (folder / "A" / "model" / "adapter_model.safetensors").is_file()
    assert not (folder / "A" / "merged").exists()


def test_several_objectives_are_compared_on_one_page(folder):
    result = gapo(
        "train", "mini", "model.name=model", "data.train=pairs.jsonl",
        "objective.name=[simpo,dpo]", "train.output_dir=both", *SMALL,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert (folder / "both" / "report.html").is_file()
    assert (folder / "both" / "dpo" / "report.html").is_file()


def test_an_existing_run_is_never_overwritten(folder, capsys, monkeypatch):
    (folder / "OUT").mkdir()
    (folder / "OUT" / "precious.txt").write_text("mine")
    arguments = ["train", "mini", "model.name=model", "data.train=pairs.jsonl", "train.output_dir=OUT", *SMALL]
    code, words = spoken(capsys, monkeypatch, *arguments)
    assert code == 2
    assert "OUT is not empty" in words
    assert (folder / "OUT" / "precious.txt").read_text() == "mine"


def test_an_interrupted_run_is_resumed(folder):
    arguments = ["model.name=model", "data.train=pairs.jsonl", "objective.name=gapo", *SMALL]
    arguments += ["train.save_strategy=steps", "train.save_steps=2", "train.output_dir=OUT"]
    assert gapo("train", "mini", *arguments).exit_code == 0
    before = (folder / "OUT" / "steps.jsonl").read_text().splitlines()
    weights = (folder / "OUT" / "model" / "model.safetensors").read_bytes()
    evals = json.loads((folder / "OUT" / "evals.json").read_text())
    shutil.rmtree(folder / "OUT" / "checkpoints" / "checkpoint-3")  # as if killed in the third step
    shutil.rmtree(folder / "OUT" / "model")
    (folder / "OUT" / "evals.json").unlink()
    start = json.loads((folder / "OUT" / "start.json").read_text())
    start["before"] = {**evals["before"], "accuracy": 0.125}
    (folder / "OUT" / "start.json").write_text(json.dumps(start))
    assert gapo("train", "mini", *arguments, "--resume").exit_code == 0
    again = json.loads((folder / "OUT" / "evals.json").read_text())
    assert again["before"]["accuracy"] == 0.125  # the number of the first start, not measured again
    assert again["after"] == evals["after"]
    assert (folder / "OUT" / "model" / "model.safetensors").read_bytes() == weights
    after = (folder / "OUT" / "steps.jsonl").read_text().splitlines()
    assert [json.loads(a)["loss"] for a in after] == [json.loads(b)["loss"] for b in before]


def test_a_run_is_not_resumed_with_another_recipe(folder, capsys, monkeypatch):
    arguments = ["train", "mini", "model.name=model", "data.train=pairs.jsonl", "objective.name=gapo", *SMALL]
    arguments += ["train.save_strategy=steps", "train.save_steps=1", "train.output_dir=OUT"]
    assert gapo(*arguments).exit_code == 0
    code, words = spoken(capsys, monkeypatch, *arguments, "noise.rate=0.4", "--resume")
    assert code == 2
    assert "other values of noise.rate" in words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "mni"], "there is no recipe 'mni'; did you mean 'mini'"),
        (["train", "mini", "objective.nam=dpo"], "unknown key 'objective.nam'"),
        (["train", "mini", "objective.name=dop"], "unknown objective 'dop'"),
        (["train", "mini", "data.train=nowhere.jsonl"], "nowhere.jsonl"),
        (["train", "mini", "model.name=./nowhere"], "there is no model folder ./nowhere"),
        (["train", "mini", "anchor.radius=-1", "objective.name=gapo"], "anchor.radius"),
        (["train", "mini", "noise.rate=2"], "from 0 to 1"),
        (["train", "mini", "noise.kind=lenght"], "did you mean 'length'"),
        (["train", "mini", "train.eval_strategy=sometimes"], "train section does not fit"),
        (["train", "mini", "--resume", "objective.name=gapo", "train.output_dir=model"], "holds no run to resume"),
        (["train", "mini", "--resume", "train.output_dir=."], "holds no run to resume"),
        (["train", "mini", "train.enable_jit_checkpoint=true"], "enable_jit_checkpoint is refused"),
        (["train", "mini", "train.output_dir=pairs.jsonl"], "pairs.jsonl is a file"),
        (["train", "mini", "train.output_dir=pairs.jsonl/x", "objective.name=gapo"], "a file stands where a folder is"),
        (["report", "nowhere"], "nowhere"),
        (["flip", "nowhere.jsonl", "out.jsonl"], "nowhere.jsonl"),
        (["bench", "--quick", "--variants", "simpo,gapo-two_pas"], "did you mean 'gapo-two_pass'"),
        (["bench", "--quick", "--micro-batch", "3"], "do not cut 8 pairs evenly"),
        (["bench", "--quick", "--precision", "fp23"], "did you mean 'fp32'"),
        (["bench", "--quick", "--repetitions", "0"], "repetitions must be at least 1"),
        (["bench", "--quick", "--no-speed"], "nothing is left to measure"),
        (
            ["bench", "--quick", "--data", "pairs.jsonl", "--pairs", "44"],
            "40 pairs that can be used",
        ),
    ],
)
def test_what_is_wrong_is_one_sentence_and_exit_code_two(arguments, words, folder, capsys, monkeypatch):
    code, said = spoken(capsys, monkeypatch, *arguments)
    assert code == 2
    assert words in said
    assert "Traceback" not in said
    assert len([line for line in said.splitlines() if line.startswith("gapo:")]) == 1


@pytest.mark.parametrize("command", [[], ["train"], ["flip"], ["report"], ["bench"], ["list"], ["doctor"]])
def test_help_fits_a_screen_and_shows_an_example(command):
    environment = {**os.environ, "COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"}
    result = subprocess.run(
        [sys.executable, "-m", "gapo", *command, "--help"], capture_output=True, text=True, env=environment, check=True
    )
    assert len(result.stdout.splitlines()) <= 40
    assert f"gapo {' '.join(command)}".strip() in result.stdout
    assert "gapo train mini" in result.stdout or "xample" in result.stdout


def test_doctor_and_list_tell_what_there_is(folder):
    doctor = gapo("doctor")
    assert doctor.exit_code == 0
    for word in ("torch", "threads", "memory", "cache", "smollm2"):
        assert word in doctor.output
    listed = gapo("list")
    for word in ("gapo", "dr_dpo", "courtesy", "quickstart", "length"):
        assert word in listed.output


def test_show_prints_the_complete_recipe_and_trains_nothing(folder):
    result = gapo("train", "quickstart", "objective.name=dpo", "--show")
    assert yaml.safe_load(result.output)["objective"]["name"] == "dpo"
    assert not (folder / "runs").exists()


def test_the_lab_recipe_measures_true_quality(folder):
    result = gapo(
        "train", "mini", "objective.name=simpo", "data.limit=64", "data.eval_limit=32", "train.output_dir=L", *SMALL
    )
    assert result.exit_code == 0, result.output
    measures = json.loads((folder / "L" / "evals.json").read_text())["measures"]
    assert {"win_rate", "lc_win_rate", "skill_kept", "drift"} <= set(measures)
