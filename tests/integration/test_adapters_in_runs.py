"""`gapo train` with adapters: what the run folder holds, and that the merged model is the trained one."""

import json

import pytest
import torch
from peft import PeftModel
from typer.testing import CliRunner

import gapo
import tiny
from gapo.cli.main import app
from runs_of_tests import text_rows

SMALL = ["train.max_steps=3", "train.per_device_train_batch_size=4", "train.use_cpu=true", "train.disable_tqdm=true"]
LORA = "model.lora={r: 2, lora_dropout: 0.1, target_modules: [q_proj, v_proj]%s}"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GAPO_CACHE", str(tmp_path / "cache"))
    tiny.llama_tied(dtype=torch.float32).save_pretrained(tmp_path / "model")
    tiny.tiny_tokenizer().save_pretrained(tmp_path / "model")
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in text_rows(16)))
    return tmp_path


def train(*overrides):
    arguments = ["train", "mini", "model.name=model", "data.train=pairs.jsonl", "train.learning_rate=1e-2", *SMALL]
    return CliRunner().invoke(app, [*arguments, *overrides], catch_exceptions=False)


@torch.no_grad()
def logits(model):
    return model.eval()(input_ids=torch.tensor([list(range(3, 40))])).logits


@pytest.mark.parametrize(
    ("extra", "overrides"),
    [
        ("", ["objective.name=gapo"]),
        (", use_dora: true", ["objective.name=gapo", "train.gradient_checkpointing=true"]),
        (", use_rslora: true", ["objective.name=dpo", "model.dtype=bfloat16", "train.precision=mixed"]),
        (", modules_to_save: [lm_head]", ["objective.name=simpo", "train.sam_radius=0.05"]),
    ],
    ids=["lora", "dora_checkpointed", "rslora_bf16", "head_trained_sam"],
)
def test_the_merged_model_is_the_base_with_its_adapters(folder, extra, overrides):
    result = train(LORA % extra, "model.merge=true", "train.output_dir=OUT", *overrides)
    assert result.exit_code == 0, result.output
    base = gapo.load_policy("model").model
    if "model.dtype=bfloat16" in overrides:
        for parameter in base.parameters():  # not the buffers: transformers keeps rotary frequencies in fp32
            parameter.data = parameter.data.bfloat16().float()
    start = logits(base)
    wanted = logits(PeftModel.from_pretrained(base, folder / "OUT" / "model"))
    policy = gapo.load_policy("OUT/merged")
    assert {p.dtype for p in policy.model.parameters()} == {torch.float32}
    torch.testing.assert_close(logits(policy.model), wanted, rtol=1e-5, atol=1e-5)
    assert float((wanted - start).abs().max()) > 1e-3
    assert policy.tokenizer("hello there").input_ids


def test_a_finished_run_that_is_resumed_merges_the_same_again(folder):
    saved = ["train.save_strategy=steps", "train.save_steps=3", "train.output_dir=OUT"]
    arguments = [LORA % "", "objective.name=simpo", "model.merge=true", *saved]
    assert train(*arguments).exit_code == 0
    first = (folder / "OUT" / "merged" / "model.safetensors").read_bytes()
    assert train(*arguments, "--resume").exit_code == 0
    assert (folder / "OUT" / "merged" / "model.safetensors").read_bytes() == first
