"""The bench on the lab: its steps are the trainer's own, its files say what was measured. No test looks at a time."""

import json
from xml.etree import ElementTree

import pytest
import torch
from typer.testing import CliRunner

from gapo.bench.setting import Setting, workload
from gapo.bench.stepping import Stepper
from gapo.bench.variants import all_variants
from gapo.cli.main import app
from gapo.training.config import PreferenceConfig
from gapo.training.trainer import PreferenceTrainer

SETTING = Setting(model="lab", data="lab", pairs=4, micro_batch=2)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GAPO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # for the processes that measure memory
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("objective", ["simpo", "gapo"])
def test_a_step_of_the_bench_is_a_step_of_training(objective, tmp_path):
    def trainer(folder):
        args = PreferenceConfig(
            output_dir=str(tmp_path / folder), objective=objective, per_device_train_batch_size=2,
            gradient_accumulation_steps=2, max_steps=1, learning_rate=1e-3, use_cpu=True, disable_tqdm=True,
            train_sampling_strategy="sequential", save_strategy="no", drift_pairs=0,
        )  # fmt: skip
        work = workload(SETTING)
        return PreferenceTrainer(work.model, args, work.pairs, processing_class=work.tokenizer)

    trained, stepped = trainer("a"), trainer("b")
    start = [p.detach().clone() for p in stepped.model.parameters()]
    trained.train()
    Stepper(stepped).step()
    after = list(stepped.model.parameters())
    assert all(torch.equal(a, b) for a, b in zip(trained.model.parameters(), after, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(start, after, strict=True))


def test_variants_share_weights_and_leave_them_alone(tmp_path):
    pytest.importorskip("trl")
    work = workload(SETTING)
    start = [p.detach().clone() for p in work.model.parameters()]
    for name in ("trl-simpo", "trl-dpo", "simpo"):
        trainer = all_variants()[name].build(work, SETTING, tmp_path / name, None)
        assert trainer.model is not work.model
        assert {id(p) for p in trainer.model.parameters()} == {id(p) for p in work.model.parameters()}
        Stepper(trainer).step()
    assert all(torch.equal(a, b) for a, b in zip(start, work.model.parameters(), strict=True))
    assert all(p.grad is None for p in work.model.parameters())


def gapo(*arguments):
    result = CliRunner().invoke(app, ["bench", "--quick", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def test_a_quick_bench_leaves_raw_numbers_summary_table_and_figure(tmp_path):
    pytest.importorskip("trl")
    names = ["trl-simpo", "trl-dpo", "simpo", "dpo", "gapo-two_pass"]
    asked = ["--pairs", "4", "--micro-batch", "2", "--out", "out"]
    said = gapo(*asked, "--variants", ",".join(names), "--repetitions", "2")
    out = tmp_path / "out"
    lines = [json.loads(line) for line in (out / "raw.jsonl").read_text().splitlines()]
    assert [line["variant"] for line in lines] == names + names[::-1]
    assert {"variant", "repetition", "place", "seconds", "peak_gflops", "load"} == set(lines[0])
    assert all(line["seconds"] > 0 for line in lines)
    summary = json.loads((out / "summary.json").read_text())
    assert [row["name"] for row in summary["variants"]] == names
    assert summary["setting"]["pairs"] == 4
    assert (
        summary["setting"]["row_tokens"] == summary["variants"][0]["row_tokens"] == summary["variants"][1]["row_tokens"]
    )
    assert summary["environment"]["trl"].startswith("1.16")
    table = (out / "table.md").read_text()
    for words in ("TRL SimPO", "gapo SimPO", "not measured", "Only 2 repetitions"):
        assert words in table
    assert table in said.output
    assert "repetition 2 of 2" in said.output
    assert "TRL DPO" in "".join(ElementTree.parse(out / "figure.svg").getroot().itertext())

    gapo(*asked, "--variants", "simpo", "--no-speed", "--memory")  # a part on its own keeps the rest
    summary = json.loads((out / "summary.json").read_text())
    assert [row["name"] for row in summary["variants"]] == names
    assert summary["variants"][2]["peak_bytes"] > 2**26
    written = "".join(path.read_text() for path in out.iterdir())
    assert str(tmp_path) not in written


def test_growth_can_be_measured_alone(tmp_path, monkeypatch):
    from gapo.bench.growth import points

    few = [point for point in points(quick=True) if point.axis == "pairs per step"]
    monkeypatch.setattr("gapo.bench.growth.points", lambda quick: few)
    gapo("--no-speed", "--growth", "--out", "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "growth.jsonl", "growth.svg", "summary.json", "table.md",
    }  # fmt: skip
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["growth"][0]["variant"] == "simpo"
    assert summary["growth"][0]["x"] == [8, 16]
