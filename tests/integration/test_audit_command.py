"""`gapo audit` as a person runs it: a process on the lab, its result, what it keeps and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

import gapo
import launches

SMALL = ["--model", "lab", "--limit", "24", "--batch-pairs", "4", "--block-pairs", "8", "--compositions", "2"]


def ran(*words: str, cwd=None, **more: str) -> subprocess.CompletedProcess[str]:
    environment = launches.environment(PYTHONPATH=launches.search_path(), COLUMNS="200", **more)
    command = [sys.executable, "-m", "gapo", "audit", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=250, check=False, cwd=cwd)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with 24 pairs of the lab, some of them flipped, and their audit."""
    folder = tmp_path_factory.mktemp("audit")
    noisy, _ = gapo.flip(gapo.load_pairs("lab", limit=24), 0.25, seed=0)
    gapo.save_pairs(noisy, folder / "pairs.jsonl")
    done = ran("pairs.jsonl", *SMALL, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout)


def test_one_object_and_the_files(place):
    folder, found = place
    assert found["folder"] == "runs/audits/pairs-lab-first-24"
    assert found["counts"] == {"rows": 24, "scored": 24, "flipped_known": 24, "agree_known": 0}
    assert found["environment"]["command"][:3] == ["gapo", "audit", "pairs.jsonl"]
    assert found["seconds"]["estimate"] > 0
    assert found["summary"]["found"]["flipped"]
    table = pq.read_table(folder / found["folder"] / "audit.parquet")
    assert table.num_rows == 24
    page = (folder / found["report"]).read_text()
    assert "Finding flipped labels" in page


def test_kept_without_scoring_again(place):
    """The finished audit is enough: the model's folder may be gone."""
    folder, _ = place
    words = ["pairs.jsonl", "stable.jsonl", *SMALL, "--keep", "stable", "--fraction", "0.5"]
    done = ran(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "about" not in done.stderr  # no estimate, so no scoring
    assert "kept    12 of 24 pairs -> stable.jsonl" in done.stdout
    lines = (folder / "pairs.jsonl").read_text().splitlines()
    kept = (folder / "stable.jsonl").read_text().splitlines()
    assert [line for line in lines if line in kept] == kept
    again = ran(*words, cwd=folder)
    assert again.returncode == 2
    assert again.stderr.strip() == "gapo: stable.jsonl exists; add --force to overwrite it, or choose another name"


def test_what_is_wrong_is_one_sentence(place):
    folder, found = place
    done = ran("pairs.jsonl", *SMALL, "--beta", "3", cwd=folder)
    assert done.returncode == 2
    [line] = [line for line in done.stderr.splitlines() if line.startswith("gapo: ")]
    assert f"{found['folder']} holds an audit with beta 2.5 (now 3.0)" in line
    assert "Traceback" not in done.stderr
    wrong = ran("pairs.jsonl", "out.jsonl", *SMALL, cwd=folder)
    assert "say --keep stable, unstable or random" in wrong.stderr


def test_two_processes_give_the_same_numbers(place, tmp_path):
    folder, found = place
    done = ran(str(folder / "pairs.jsonl"), *SMALL, "--out", str(tmp_path / "two"), "--processes", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("scored at lab") == 1
    one, two = (
        pq.read_table(where / "audit.parquet").to_pydict() for where in (folder / found["folder"], tmp_path / "two")
    )
    assert one["pair_id"] == two["pair_id"]
    for name in ("margin", "gap", "gap_spread", "weight", "grad_norm", "alignment", "gap_self", "gap_others"):
        assert one[name] == pytest.approx(two[name], abs=2e-5), name
    assert json.loads((tmp_path / "two" / "audit.json").read_text())["environment"]["processes"] == 2
