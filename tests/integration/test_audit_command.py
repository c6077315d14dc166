"""`gapo audit` as a person runs it: a process on the lab, its result, what it keeps and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from click.testing import Result
from typer.testing import CliRunner

import gapo
import launches
from gapo.cli.main import app
from gapo.errors import InputError

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


def here(*words: str) -> Result:
    """The same in this process, which has everything loaded."""
    return CliRunner().invoke(app, ["audit", *words])


def test_kept_without_scoring_again(place, monkeypatch):
    folder, _ = place
    monkeypatch.chdir(folder)
    monkeypatch.setattr("gapo.runs.audit_model.load_audited", lambda *_: pytest.fail("the model is not needed"))
    words = ["pairs.jsonl", "stable.jsonl", *SMALL, "--keep", "stable", "--fraction", "0.5"]
    done = here(*words)
    assert done.exit_code == 0, done.output
    assert "kept    12 of 24 pairs -> stable.jsonl" in done.output
    lines = (folder / "pairs.jsonl").read_text().splitlines()
    kept = (folder / "stable.jsonl").read_text().splitlines()
    assert [line for line in lines if line in kept] == kept
    assert str(here(*words).exception) == "stable.jsonl exists; add --force to overwrite it, or choose another name"


def test_what_is_wrong_is_one_sentence(place, monkeypatch):
    folder, found = place
    monkeypatch.chdir(folder)
    wrong = here("pairs.jsonl", *SMALL, "--beta", "3").exception
    assert isinstance(wrong, InputError)
    assert f"{found['folder']} holds an audit with beta 2.5 (now 3.0)" in str(wrong)
    done = ran("pairs.jsonl", "out.jsonl", *SMALL, cwd=folder)
    assert done.returncode == 2
    assert done.stderr == "gapo: out.jsonl is where --keep would write; say --keep stable, unstable or random\n"


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
