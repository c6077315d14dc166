"""`gapo eval`: commands end to end, in seconds, on a tiny model and on the lab."""

import importlib.util
import json
import math
from pathlib import Path

import pytest
import torch
import yaml
from typer.testing import CliRunner

import tiny
from gapo.cli.main import app
from gapo.errors import InputError
from gapo.lab.load import load_pairs, load_start
from gapo.report import write_report
from runs_of_tests import text_rows


def gapo(*arguments):
    result = CliRunner().invoke(app, ["eval", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GAPO_CACHE", str(tmp_path / "cache"))
    for name, seed in (("model", 0), ("other", 1)):
        tiny.llama(dtype=torch.float32, seed=seed).save_pretrained(name)
        tiny.tiny_tokenizer().save_pretrained(name)
    rows = [{**row, "subset": ("easy", "hard")[i % 2]} for i, row in enumerate(text_rows(24))]
    Path("pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("prompts.txt").write_text("tell me about a cat\nwhat is the time\nhello there\n")
    return tmp_path


def test_reward_prints_a_table_and_writes_what_it_prints(place):
    shown = gapo("reward", "model", "--data", "pairs.jsonl", "--reference", "other", "--limit", 20)
    found = json.loads(Path("evals/model/reward.json").read_text())
    assert found["pairs"] == 20
    assert f"{found['accuracy']['value']:.1%}" in shown
    assert found["reward"] == "log p(y) - log p_ref(y), reference other"
    assert set(found["subsets"]) == {"easy", "hard"}
    assert "reward accuracy, hard" in Path("evals/model/reward.md").read_text()


def test_drift_reads_pairs_or_lets_the_model_reply(place):
    gapo("drift", "model", "--against", "other", "--data", "pairs.jsonl", "--out", "a")
    gapo("drift", "model", "--against", "other", "--data", "prompts.txt", "--max-new-tokens", 8, "--out", "b")
    gapo("drift", "model", "--against", "other", "--data", "prompts.txt", "--max-new-tokens", 8, "--out", "c")
    pairs, own, again = (json.loads(Path(out, "drift.json").read_text()) for out in "abc")
    assert (pairs["on"], pairs["responses"]) == ("the pairs' responses", 48)
    assert (own["on"], own["responses"]) == ("replies of the model", 3)
    assert own == again
    assert min(each[way]["value"] for each in (pairs, own) for way in ("model_base", "base_model")) > 0


@pytest.mark.skipif(importlib.util.find_spec("lm_eval") is None, reason="the extra gapo[eval] is absent")
def test_tasks_come_first_and_the_model_last_wherever_the_options_are(place):
    rows = [
        {"question": f"what is {w}", "choices": {"text": [w, "cat"], "label": ["A", "B"]}, "answerKey": "A"}
        for w in ("red", "blue", "good", "bad")
    ]
    Path("arc_challenge").mkdir()
    Path("arc_challenge/test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    shown = gapo("--limit", 3, "arc_challenge", "model", "--data-dir", ".", "--out", "here")
    found = json.loads(Path("here/tasks-arc_challenge.json").read_text())
    assert "3 of 4" in shown
    assert (found["model"], found["tasks"]["arc_challenge"]["n"]) == ("model", 3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["gsm8k"], "the model last"),
        (["reward", "model", "--data", "pairs.jsonl", "--objective", "dpo"], "--reference"),
        (["drift", "model", "--against", "lab", "--data", "pairs.jsonl"], "different tokenizers"),
        (["all", "model", "--against", "other"], "give --data"),
        (["all", "model", "--against", "other", "--judged", "nowhere"], "nowhere holds no judging"),
    ],
    ids=["no model", "no reference", "tokenizers", "nothing", "no judging"],
)
def test_what_is_wrong_is_said_in_a_sentence(place, arguments, words):
    result = CliRunner().invoke(app, ["eval", *arguments])
    assert isinstance(result.exception, InputError)
    assert words in str(result.exception)


def test_all_on_the_lab_judges_by_true_quality_and_adds_a_section_to_the_page(place):
    """A run of the lab, its model a little moved: the table, the page, and the run's own results as they were."""
    model, tokenizer = load_start()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.02 * torch.randn(parameter.shape, generator=generator)
    model.save_pretrained("run/model")
    tokenizer.save_pretrained("run/model")
    Path("run/recipe.yaml").write_text(yaml.safe_dump({"model": {"name": "lab"}, "objective": {"name": "gapo"}}))
    Path("run/evals.json").write_text(json.dumps({"objective": "gapo", "seed": 3}))
    rows = [{"prompt": p.prompt, "chosen": p.chosen, "rejected": p.rejected} for p in load_pairs("test")[:40]]
    Path("lab.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    gapo("all", "run", "--against", "lab", "--data", "lab.jsonl")
    kept = json.loads(Path("run/evals.json").read_text())
    found = {row["name"]: row for row in kept["comparison"]["rows"]}
    assert kept["seed"] == 3
    groups = dict.fromkeys(row["group"] for row in found.values())
    assert list(groups) == ["alignment", "reasoning", "reward accuracy", "drift"]
    judged = next(row for row in found.values() if row["facts"].get("judge") == "true quality")
    assert judged["base"]["value"] == 50.0  # the start model against itself, with the same luck
    assert judged["difference"]["value"] == pytest.approx(judged["model"]["value"] - 50.0)
    assert found["reward accuracy"]["difference"]["n"] == 40
    assert found["KL(model || base)"]["model"]["value"] > 0
    sums = next(row for row in found.values() if row["name"].startswith("sums"))
    assert sums["model"]["n"] == 155
    assert math.isclose(sums["difference"]["value"], sums["model"]["value"] - sums["base"]["value"], abs_tol=1e-9)
    page = Path("run/report.html").read_text()
    assert 'id="evals"' in page
    assert "true quality" in page
    assert "| alignment |" in Path("run/evals.md").read_text()
    del kept["comparison"]["base"]  # a file that somebody changed does not cost the page
    Path("run/evals.json").write_text(json.dumps(kept))
    assert "cannot be read" in write_report(["run"]).read_text()


def test_all_without_a_run_folder_writes_beside(place):
    gapo("all", "model", "--against", "other", "--data", "pairs.jsonl")
    found = json.loads(Path("evals/model/evals.json").read_text())["comparison"]
    assert (found["model"], found["base"]) == ("model", "other")
    assert {row["group"] for row in found["rows"]} == {"reward accuracy", "drift"}


def test_a_command_nearly_named_is_not_taken_for_a_task():
    with pytest.raises(InputError, match=r"there is no `gapo eval rewards`; did you mean 'reward'\?"):
        gapo("rewards", "model", "--data", "pairs.jsonl")
