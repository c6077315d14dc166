"""What is refused is refused in one sentence that names the way out, before weights or data are read."""

import json
import sys

import pytest
import torch
from peft import LoraConfig, PrefixTuningConfig, PromptEncoderConfig, PromptTuningConfig, get_peft_model

import gapo
import tiny
from gapo.cli.main import main
from gapo.errors import InputError
from gapo.model import load, refusals
from gapo.model.refusals import refuse_launch, refuse_model_settings, refuse_quantized
from gapo.runs.recipe import read_recipe
from runs_of_tests import text_rows, trainer

LORA = "model.lora={r: 2, target_modules: [q_proj]}"
ENVIRONMENTS = [
    ({"ACCELERATE_USE_DEEPSPEED": "true"}, "DeepSpeed is refused.*FSDP2"),
    ({"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "1"}, "FSDP1 is refused.*fsdp_version 2"),
    ({"ACCELERATE_USE_FSDP": "true"}, "FSDP1 is refused.*fsdp_version 2"),  # accelerate's default is 1
    ({"ACCELERATE_MIXED_PRECISION": "fp16"}, "fp16 is refused.*train.precision=mixed"),
    ({"ACCELERATE_MIXED_PRECISION": "fp8"}, "fp8 is refused.*train.precision=mixed"),
]
ARGUMENTS = [
    ({"deepspeed": {"zero_optimization": {"stage": 2}}}, "DeepSpeed is refused.*FSDP2"),
    ({"fp16": True}, "fp16 is refused.*train.precision=mixed"),
    ({"fsdp": True, "fsdp_config": {"version": 1}}, "FSDP1 is refused.*fsdp_version 2"),
    ({"fsdp": "full_shard", "fsdp_config": {"fsdp_version": 1}}, "FSDP1 is refused.*fsdp_version 2"),
    ({"fsdp": True, "fsdp_config": {"version": "two"}}, "version of FSDP must be 2, not 'two'"),
]
RECIPES = [
    (["train.deepspeed=ds.json"], "DeepSpeed is refused.*FSDP2"),
    (["train.fp16=true"], "fp16 is refused.*train.precision=mixed"),
    (["train.fsdp=true", "train.fsdp_config={version: 1}"], "FSDP1 is refused.*fsdp_version 2"),
    (["model.dtype=bfloat16"], "bfloat16 are refused.*model.dtype=float32 with train.precision=mixed"),
    (["model.dtype=bf16"], "unknown model.dtype 'bf16'"),
    (["model.quantization=4bit"], "cannot be trained themselves.*model.lora"),
    (["model.quantization=8bit", LORA], "8-bit weights are refused.*4bit"),
    (["model.quantization=3bit", LORA], "unknown model.quantization '3bit'"),
    (["model.merge=true"], "no adapters to merge.*model.lora"),
    (["model.lora={peft_type: PROMPT_TUNING}"], "p-tuning are refused.*use LoRA"),
    (["model.lora={peft_type: prefix_tuning}"], "p-tuning are refused.*use LoRA"),
    (["model.lora={peft_type: P_TUNING}"], "p-tuning are refused.*use LoRA"),
    (["model.lora={init_lora_weights: pissa_niter_4}"], "pissa_niter_4 is refused.*leave it at true"),
]


@pytest.fixture
def nothing_is_loaded(monkeypatch):
    """Weights and data are out of reach: whoever asks for them fails the test."""

    def reached(*_, **__):
        raise AssertionError("something was loaded")

    monkeypatch.setattr(load, "_loaded", reached)
    monkeypatch.setattr("gapo.runs.data.load_pairs", reached)
    monkeypatch.setattr("gapo.training.trainer.encoded_sets", reached)


def one_sentence(text):
    return "\n" not in text and ". " not in text


@pytest.mark.parametrize(("environment", "words"), ENVIRONMENTS, ids=str)
def test_what_accelerate_launch_has_set_is_seen(environment, words, tmp_path, monkeypatch):
    with pytest.raises(InputError, match=words) as refused:
        refuse_launch(environment=environment)
    assert one_sentence(str(refused.value))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=words):
        gapo.PreferenceConfig(output_dir=str(tmp_path))


@pytest.mark.parametrize(("environment", "words"), ENVIRONMENTS, ids=str)
def test_the_command_line_refuses_before_loading(environment, words, tmp_path, monkeypatch, capsys, nothing_is_loaded):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    refused(capsys, monkeypatch, tmp_path, [], words)


@pytest.mark.parametrize(("overrides", "words"), RECIPES, ids=str)
def test_a_recipe_is_refused_before_loading(overrides, words, tmp_path, monkeypatch, capsys, nothing_is_loaded):
    refused(capsys, monkeypatch, tmp_path, overrides, words)
    with pytest.raises(InputError, match=words) as error:
        read_recipe("mini", overrides)
    assert one_sentence(str(error.value))


def refused(capsys, monkeypatch, tmp_path, overrides, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["gapo", "train", "mini", "objective.name=gapo", *overrides])
    with pytest.raises(SystemExit) as leaving:
        main()
    said = " ".join(capsys.readouterr().err.split())
    assert leaving.value.code == 2
    assert "Traceback" not in said
    with pytest.raises(InputError, match=words):
        raise InputError(said)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize(("arguments", "words"), ARGUMENTS, ids=str)
def test_arguments_are_refused_at_construction(arguments, words, tmp_path, nothing_is_loaded):
    with pytest.raises(InputError, match=words):
        gapo.PreferenceConfig(output_dir=str(tmp_path), **arguments)
    config = gapo.PreferenceConfig(output_dir=str(tmp_path), use_cpu=True)
    for name, value in arguments.items():
        setattr(config, name, value)
    with pytest.raises(InputError, match=words):
        gapo.PreferenceTrainer("lab", config, text_rows())


def test_a_file_of_fsdp_settings_is_read(tmp_path):
    path = tmp_path / "fsdp.json"
    path.write_text(json.dumps({"fsdp_version": 1}))
    with pytest.raises(InputError, match="FSDP1 is refused"):
        refuse_launch(fsdp=True, fsdp_config=str(path), environment={})
    path.write_text(json.dumps({"version": 2}))
    refuse_launch(fsdp=True, fsdp_config=str(path), environment={})
    with pytest.raises(InputError, match="cannot be read"):
        refuse_launch(fsdp=True, fsdp_config=str(tmp_path / "none.json"), environment={})


def test_what_works_is_not_refused(tmp_path, monkeypatch):
    refuse_launch(environment={})
    refuse_launch(fsdp=True, environment={"ACCELERATE_USE_FSDP": "true"})  # set by an earlier run of this process
    refuse_launch(environment={"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"})
    refuse_launch(environment={"ACCELERATE_USE_FSDP": "false", "ACCELERATE_USE_DEEPSPEED": "false"})
    refuse_launch(fsdp_config={"version": 1}, environment={})  # settings of something that is off
    refuse_model_settings("bfloat16", {"r": 2})
    refuse_model_settings("float32", None)


def test_bf16_from_accelerate_launch_is_mixed_precision(tmp_path, monkeypatch):
    """transformers would compute in bf16 without a word, and the gap with it."""
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    config = gapo.PreferenceConfig(output_dir=str(tmp_path), use_cpu=True)
    assert config.precision == "mixed"
    assert config.bf16


def test_four_bits_without_bitsandbytes_are_refused_in_a_sentence(monkeypatch):
    monkeypatch.setattr(refusals.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"needs bitsandbytes, which is not installed: pip install 'gapo\[qlora\]'"):
        refuse_model_settings(quantization="4bit", lora={"r": 2})


PROMPTS = [
    PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2),
    PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2),
    PromptEncoderConfig(task_type="CAUSAL_LM", num_virtual_tokens=2, encoder_hidden_size=8),
]


@pytest.mark.parametrize("config", PROMPTS, ids=lambda config: type(config).__name__)
def test_virtual_tokens_are_refused_by_config_and_on_arrival(config, tmp_path, nothing_is_loaded):
    arguments = gapo.PreferenceConfig(output_dir=str(tmp_path), use_cpu=True)
    with pytest.raises(InputError, match=r"p-tuning are refused.*use LoRA"):
        gapo.PreferenceTrainer("lab", arguments, text_rows(), peft_config=config)
    with pytest.raises(InputError, match=r"p-tuning are refused.*use LoRA"):
        trainer(tmp_path, model=get_peft_model(tiny.llama(dtype=torch.float32), config))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_low_trained_weights_are_refused_and_low_frozen_ones_are_not(dtype, tmp_path):
    with pytest.raises(InputError, match=r"model.dtype=float32 with train.precision=mixed"):
        trainer(tmp_path, model=tiny.llama(dtype=dtype))
    lora = LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM")
    trainer(tmp_path, model=tiny.llama(dtype=dtype), extra_peft_config=lora)


def test_weights_that_arrive_quantised_are_refused_before_they_are_read(tmp_path, monkeypatch):
    tiny.llama(dtype=torch.float32).save_pretrained(tmp_path / "m")
    tiny.tiny_tokenizer().save_pretrained(tmp_path / "m")
    path = tmp_path / "m" / "config.json"
    plain = json.loads(path.read_text())
    (tmp_path / "m" / "model.safetensors").unlink()  # whoever reads weights fails otherwise
    four = {"quant_method": "bitsandbytes", "load_in_4bit": True}
    path.write_text(json.dumps({**plain, "quantization_config": four}))
    with pytest.raises(InputError, match="cannot be trained themselves"):
        gapo.load_policy(str(tmp_path / "m"))
    path.write_text(json.dumps({**plain, "quantization_config": {"quant_method": "gptq", "bits": 4}}))
    with pytest.raises(InputError, match="quantised by gptq are refused"):
        gapo.load_policy(str(tmp_path / "m"), lora={"r": 2})
    refuse_quantized(four, adapted=True)
    with pytest.raises(InputError, match="8-bit weights are refused"):
        refuse_quantized({"quant_method": "bitsandbytes", "load_in_8bit": True}, adapted=True)


def test_an_adapter_folder_is_not_taken_for_a_model(tmp_path):
    lora = LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM")
    get_peft_model(tiny.llama(dtype=torch.float32), lora).save_pretrained(tmp_path / "a")
    with pytest.raises(InputError, match=r"holds adapters without their model.*model.merge=true"):
        gapo.load_policy(str(tmp_path / "a"))


def test_an_adapter_loaded_for_inference_is_named(tmp_path):
    lora = LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM", inference_mode=True)
    with pytest.raises(InputError, match="is_trainable=True"):
        trainer(tmp_path, model=get_peft_model(tiny.llama(dtype=torch.float32), lora))


def test_arguments_of_another_trainer_are_named(tmp_path):
    from transformers import TrainingArguments

    with pytest.raises(InputError, match=r"must be a gapo.PreferenceConfig, not a TrainingArguments"):
        gapo.PreferenceTrainer("lab", TrainingArguments(output_dir=str(tmp_path), use_cpu=True), text_rows())


def test_first_order_gaps_of_dora_are_warned_of(tmp_path, caplog):
    lora = LoraConfig(r=2, target_modules=["q_proj"], use_dora=True, task_type="CAUSAL_LM")
    for engine in ("first_order", "two_pass"):
        caplog.clear()
        options = {"extra_peft_config": lora, "dtype": torch.float32, "anchor_engine": engine}
        trainer(tmp_path / engine, **options)
        assert ("DoRA hands out no true gradient" in caplog.text) == (engine == "first_order")
