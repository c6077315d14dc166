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


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    """160 pairs of the lab, a quarter of them flipped, their labels judged and cleaned."""
    folder = tmp_path_factory.mktemp("labels")
    noisy, _ = gapo.flip(gapo.load_pairs("lab", limit=160), 0.25, seed=0)
    gapo.save_pairs(noisy, folder / "pairs.jsonl")
    words = ["pairs.jsonl", "cleaned.jsonl", "--model", "lab", "--compositions", "1", "--find-wrong", "--json"]
    done = ran(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout)


def test_wrong_labels_are_ranked_counted_and_checked(labels):
    folder, found = labels
    about = found["labels"]
    table = pq.read_table(folder / found["folder"] / "wrong.parquet")
    wrong = table["wrong"].to_pylist()
    assert wrong == sorted(wrong, reverse=True)
    assert table.num_rows == about["pairs"] == 160
    flipped = table["flipped"].to_pylist()
    assert sum(flipped[:40]) > 1.4 * sum(flipped[-40:])  # weak with so few pairs, but there
    mixture, check = about["mixture"], about["check"]
    assert mixture["low"] <= mixture["rate"] <= mixture["high"]
    assert check["flips"] == 16
    assert check["verdict"] in ("strong", "weak", "none")
    page = (folder / found["report"]).read_text()
    assert 'href="#wrong-labels"' in page
    assert check["words"].split(";")[0][:40] in page


def test_the_list_to_relabel_and_the_cleaned_file_are_the_two_parts_of_the_data(labels):
    folder, found = labels
    relabel = [json.loads(line) for line in (folder / found["folder"] / "relabel.jsonl").read_text().splitlines()]
    cleaned = (folder / "cleaned.jsonl").read_text().splitlines()
    source = (folder / "pairs.jsonl").read_text().splitlines()
    assert len(relabel) == found["labels"]["suspected"] == 160 - found["kept"]["kept"]
    left = {int(row["source"].rpartition(":")[2]) - 1 for row in relabel}
    assert cleaned == [line for k, line in enumerate(source) if k not in left]
    assert all({"prompt", "chosen", "rejected", "wrong"} <= set(row) for row in relabel)


def test_training_takes_up_what_an_audit_found(labels, monkeypatch):
    folder, found = labels
    monkeypatch.chdir(folder)
    options = ["data.train=pairs.jsonl", "train.max_steps=2", f"train.consensus_judge={found['folder']}"]
    options += ["data.eval_limit=8", "train.output_dir=run"]
    done = CliRunner().invoke(app, ["train", "mini", "objective.name=consensus", *options, "-q"])
    assert done.exit_code == 0, done.output
    judged = {row["pair_id"]: row["wrong"] for row in pq.read_table(f"{found['folder']}/wrong.parquet").to_pylist()}
    trained = pq.read_table("run/pairs.parquet")
    assert trained.num_rows
    for name, wrong in zip(trained["pair_id"].to_pylist(), trained["wrong"].to_pylist(), strict=True):
        assert wrong == pytest.approx(judged[name])


def test_the_same_labels_are_found_from_python(labels, tmp_path):
    folder, found = labels
    judged = pq.read_table(folder / found["folder"] / "wrong.parquet").to_pydict()
    ours = gapo.find_wrong_labels(folder / "pairs.jsonl", "lab", out=tmp_path)
    assert ours.table.to_pydict()["pair_id"] == judged["pair_id"]
    assert ours.about["check"] == found["labels"]["check"]
    assert pq.read_table(tmp_path / "wrong.parquet").to_pydict()["wrong"] == judged["wrong"]
    assert len((tmp_path / "relabel.jsonl").read_text().splitlines()) == len(ours.suspected)
    with pytest.raises(InputError, match="needs its tokenizer: find_wrong_labels"):
        gapo.find_wrong_labels("lab", gapo.load_policy("lab").model)
    with pytest.raises(InputError, match=r"^scope 'nowhere' matches no trained parameter"):
        gapo.find_wrong_labels("lab", "lab", scope="nowhere")
    with pytest.raises(InputError, match="which within subset judges within"):
        gapo.find_wrong_labels(folder / "pairs.jsonl", "lab", within="subset")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--limit", "63"], "63 pairs are too few to have a direction; finding wrong labels takes 64 or more"),
        (["--judge-scope", "nowhere"], "--judge-scope 'nowhere' matches no trained parameter"),
        (["--within", "subset"], "no pair has a `subset`, which --within subset judges within; add such a column"),
        (["--within", "topic"], "--within must be one of all, subset, not 'topic'"),
    ],
)
def test_what_cannot_be_judged_is_said_before_anything_is_scored(labels, tmp_path, monkeypatch, words, said):
    folder, _ = labels
    monkeypatch.setattr("gapo.runs.audit.audited", lambda *_, **__: pytest.fail("scored all the same"))
    out = ["--model", "lab", "--out", str(tmp_path / "out"), "--find-wrong"]
    wrong = here(str(folder / "pairs.jsonl"), *out, *words).exception
    assert isinstance(wrong, InputError)
    assert said in str(wrong)
    assert not (tmp_path / "out").exists()


def test_keep_and_find_wrong_are_not_given_together(place, monkeypatch):
    folder, _ = place
    monkeypatch.chdir(folder)
    done = here("pairs.jsonl", "out.jsonl", "--model", "lab", "--keep", "stable", "--find-wrong")
    assert isinstance(done.exception, InputError)
    assert "give one of them" in str(done.exception)


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
    assert done.stderr == "gapo: out.jsonl is where --keep or --find-wrong would write; give one of them\n"


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
