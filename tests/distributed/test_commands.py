"""The two ways to start several processes: ours, and accelerate's."""

from __future__ import annotations

import json
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

import launches

SMALL = ["data.limit=24", "data.eval_limit=8", "objective.name=gapo", "train.max_steps=3", "train.reply_prompts=0"]
SMALL += ["train.per_device_train_batch_size=4", "train.drift_pairs=2"]


def ran(command: list[str], timeout: int = 250) -> subprocess.CompletedProcess[str]:
    paths = launches.environment(PYTHONPATH=launches.search_path())
    return subprocess.run(command, env=paths, capture_output=True, text=True, timeout=timeout, check=False)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone") / "run"
    small = [part.replace("batch_size=4", "batch_size=8") for part in SMALL]
    done = ran([sys.executable, "-m", "gapo", "train", "mini", *small, f"train.output_dir={folder}"])
    assert done.returncode == 0, done.stderr
    return folder


def same_run(one, other):
    first, second = (pq.read_table(folder / "pairs.parquet").to_pydict() for folder in (one, other))
    assert first["pair_id"] == second["pair_id"]
    assert first["gap"] == pytest.approx(second["gap"], abs=1e-5)
    assert first["weight"] == pytest.approx(second["weight"], abs=1e-5)
    evals = [json.loads((folder / "evals.json").read_text()) for folder in (one, other)]
    assert evals[0]["after"]["margin"] == pytest.approx(evals[1]["after"]["margin"], abs=1e-5)


def test_processes(alone, tmp_path):
    command = [sys.executable, "-m", "gapo", "train", "mini", *SMALL, "--processes", "2"]
    done = ran([*command, f"train.output_dir={tmp_path / 'run'}"])
    assert done.returncode == 0, done.stderr
    same_run(alone, tmp_path / "run")
    assert done.stdout.count("Reward accuracy") == 1
    assert (tmp_path / "run" / "report.html").is_file()
    assert json.loads((tmp_path / "run" / "environment.json").read_text())["processes"] == 2
    again = ran([*command, f"train.output_dir={tmp_path / 'run'}", "--resume"])
    assert again.returncode == 0, again.stderr
    assert "is finished" in again.stderr


def test_accelerate_launch(alone, tmp_path):
    """`--multi_gpu` means several processes; without a GPU we say that they are to use the CPU."""
    launcher = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"]
    launcher += ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
    launcher += ["--main_process_port", str(launches.free_port()), "-m", "gapo", "train", "mini"]
    done = ran([*launcher, *SMALL, f"train.output_dir={tmp_path / 'run'}"])
    assert done.returncode == 0, done.stderr[-3000:]
    same_run(alone, tmp_path / "run")


def test_what_is_wrong_is_said_once(tmp_path):
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"nothing": 1}\n')
    command = [sys.executable, "-m", "gapo", "train", "mini", f"data.train={bad}", "--processes", "2"]
    done = ran([*command, f"train.output_dir={tmp_path / 'run'}"])
    assert done.returncode == 2
    assert done.stderr.count("gapo: ") == 1, done.stderr
    assert "Traceback" not in done.stderr
