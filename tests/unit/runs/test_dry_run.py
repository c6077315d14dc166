"""Dry runs: every recipe that ships passes one, steps are counted as the trainer counts, errors are one sentence."""

import json
import re

import pytest
from typer.testing import CliRunner

import gapo
import tiny
from gapo.cli.main import app
from gapo.errors import InputError
from gapo.runs.about import about_of
from gapo.runs.batch_arithmetic import batch_arithmetic
from gapo.runs.dry_run import dry_runs
from gapo.runs.known_pairs import KNOWN_PAIRS, find_pairs
from gapo.runs.recipe import read_recipe, recipe_names
from runs_of_tests import text_rows, trainer

PAPER = [name for name in recipe_names() if "methods" in read_recipe(name)]


def dry(name, *overrides):
    return dry_runs(read_recipe(name, overrides))


def printed(*arguments):
    result = CliRunner().invoke(app, ["train", *arguments, "--dry-run"], env={"COLUMNS": "400"})
    return result, re.sub(r"\s+", " ", result.output)


def test_the_paper_has_its_recipes():
    assert {"mistral-7b-instruct", "llama3-8b-base", "llama3-8b-instruct", "gemma2-9b-it", "pythia-2.8b-hh"} == set(
        PAPER
    )


@pytest.fixture
def own_sets(tmp_path, monkeypatch):
    """A folder with the sets that recipes take from the user."""
    row = {"prompt": "Say a word.", "chosen": "A kind word, with pleasure.", "rejected": "No. Go away now."}
    for name in ("hh", "polite"):
        (tmp_path / name).mkdir()
        for split in ("train", "test"):
            rows = [{**row, "prompt": f"{split}: {number} words, please."} for number in range(40)]
            (tmp_path / name / f"{split}.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in rows))
    monkeypatch.setenv("GAPO_DATA", str(tmp_path))


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_passes_its_dry_run(name, own_sets):
    result, words = printed(name)
    assert result.exit_code == 0, words
    assert "nothing speaks against this run" in words
    for label in ("model", "data", "batch", "schedule", "arithmetic", "memory", "time", "assumed", "not seen"):
        assert re.search(rf"(^|\s){label} ", words), label


@pytest.mark.parametrize("name", PAPER)
def test_every_method_fits_and_takes_the_hours_its_recipe_names(name):
    recipe = read_recipe(name)
    methods = list(recipe["methods"])
    found = dry(name, f"objective.name=[{','.join(methods)}]")
    assert [one.objective for one in found] == methods == list(about_of(recipe).hours)
    assert {one.objective: round(one.hours, 1) for one in found} == about_of(recipe).hours
    assert all(one.fits for one in found)
    assert all(one.args.gradient_checkpointing for one in found)
    assert {one.batches.step_pairs for one in found} == {64 if "pythia" in name else 128}


def test_the_arithmetic_of_a_paper_recipe():
    (one,) = dry("mistral-7b-instruct")
    b = one.batches
    assert (b.processes, b.per_device, b.accumulation, b.step_pairs) == (8, 1, 16, 128)
    assert (b.anchor_batches, b.anchor_pairs, b.anchors) == (8, 64, 2)
    assert (b.steps, b.warmup) == (467, 47)  # 59,720 / 8 = 7,465 batches, / 16 = 466.6; a tenth of it
    assert one.tokens == 467 * 128 * 1000
    assert one.engine == "two_pass"
    assert one.reference_hours == 0
    assert one.bf16_hours < one.hours
    (dpo,) = dry("mistral-7b-instruct", "objective.name=dpo")
    assert dpo.reference_hours > 0
    assert dpo.engine is None


@pytest.mark.parametrize(
    "options",
    [
        {"per_device_train_batch_size": 3, "gradient_accumulation_steps": 2, "num_train_epochs": 2},
        {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 3, "num_train_epochs": 0.5},
        {"per_device_train_batch_size": 4, "num_train_epochs": 1},
        {"per_device_train_batch_size": 32, "num_train_epochs": 1},
        {"per_device_train_batch_size": 3, "num_train_epochs": 1, "dataloader_drop_last": True},
        {"max_steps": 7},
    ],
)
def test_steps_are_counted_as_the_trainer_counts(options, tmp_path):
    rows = text_rows(23)
    made = trainer(tmp_path, rows, **{"max_steps": -1, "warmup_steps": 0.3, **options})
    steps = made.set_initial_training_values(made.args, made.get_train_dataloader())[-1]
    found = batch_arithmetic(made.args, len(rows), 1)
    assert found.steps == steps
    assert found.warmup == made.args.get_warmup_steps(steps)


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("processes", [2, 8])
def test_batches_of_several_processes_are_those_of_accelerate(processes, drop_last, tmp_path):
    from accelerate.data_loader import BatchSamplerShard
    from torch.utils.data import BatchSampler

    args = trainer(tmp_path, max_steps=-1, num_train_epochs=1, dataloader_drop_last=drop_last).args
    for pairs in range(processes * args.per_device_train_batch_size, 90):
        batches = BatchSampler(range(pairs), args.per_device_train_batch_size, drop_last)
        assert batch_arithmetic(args, pairs, processes).steps == len(BatchSamplerShard(batches, processes, 0))


def test_pairs_that_can_be_read_are_counted(tmp_path):
    gapo.save_pairs(gapo.load_pairs(text_rows(23)), tmp_path / "mine.jsonl")
    (one,) = dry("mini", "objective.name=gapo", f"data.train={tmp_path / 'mine.jsonl'}")
    assert one.train.pairs == 23
    assert one.train.source.startswith("counted")
    assert one.evaluation is None
    (one,) = dry("mini", "objective.name=gapo", f"data.train={tmp_path / 'mine.jsonl'}", "data.limit=10")
    assert one.train.pairs == 10
    (one,) = dry("mini", "objective.name=gapo", "data.eval=null", "data.eval_fraction=0.25")
    assert (one.train.pairs, one.evaluation.pairs) == (2400, 800)


def test_lengths_are_in_the_models_own_tokens_where_its_tokenizer_is_here():
    (one, _) = dry("mini")
    encoder = gapo.pairs.encode.Encoder(gapo.load_policy("lab").tokenizer)
    encoded = [encoder.encode(pair) for pair in gapo.load_pairs("lab")[:1000]]
    assert one.train.mean.prompt == round(sum(len(pair.prompt) for pair in encoded) / 1000)
    assert one.train.mean.chosen == round(sum(len(pair.chosen) for pair in encoded) / 1000)
    assert "own tokens" in one.train.source


def test_a_known_set_out_of_reach_is_taken_from_its_card():
    found = find_pairs("HuggingFaceH4/ultrafeedback_binarized:train_prefs")
    assert found.pairs == 61_135
    assert "not reached" in found.source
    assert find_pairs("Anthropic/hh-rlhf").pairs == 160_800
    assert find_pairs("Anthropic/hh-rlhf", limit=100).pairs == 100
    with pytest.raises(InputError, match="could not fetch 'nobody/nothing'"):
        find_pairs("nobody/nothing")


@pytest.mark.parametrize("name", PAPER)
def test_the_data_of_every_paper_recipe_are_known(name):
    data = read_recipe(name)["data"]
    for key in ("train", "eval"):
        words = data[key] if ":" in data[key] else f"{data[key]}:train"
        assert {"chosen", "rejected"} <= set(KNOWN_PAIRS[words].columns)


@pytest.mark.parametrize("name", KNOWN_PAIRS)
def test_a_row_of_a_known_sets_form_is_a_pair(name):
    """Conversations under `chosen` and `rejected`; HH has transcripts and no prompt."""
    columns = KNOWN_PAIRS[name].columns
    talk = [[{"role": "user", "content": "hi"}, {"role": "assistant", "content": text}] for text in ("good", "bad")]
    row = dict.fromkeys(columns, "x") | dict(zip(("chosen", "rejected"), talk, strict=True))
    row |= {"prompt": "hi"} if "prompt" in columns else {}
    if "prompt" not in columns:
        row |= {"chosen": "\n\nHuman: hi\n\nAssistant: good", "rejected": "\n\nHuman: hi\n\nAssistant: bad"}
    (pair,) = gapo.load_pairs([row])
    assert (pair.chosen.strip(), pair.rejected.strip()) == ("good", "bad")
    assert "hi" in pair.prompt_text


def test_what_does_not_fit_is_said_with_a_way_out():
    result, words = printed("llama3-8b-instruct", "about.gpus=2")
    assert result.exit_code == 1
    assert "DOES NOT FIT" in words
    assert "8 GPUs with about.sharding=fsdp2" in words
    assert "model.lora={r: 16}" in words
    result, words = printed("llama3-8b-instruct", "about.sharding=ddp")
    assert result.exit_code == 1
    assert "advice try about.sharding=fsdp2" in words


def test_adapters_on_one_gpu_take_a_bank():
    small = ["model.lora={r: 16}", "about.gpus=1", "about.sharding=none", "anchor.engine=auto"]
    (one,) = dry("llama3-8b-instruct", *small)
    assert one.fits
    assert one.engine == "bank"
    assert one.sizes.trained < one.sizes.parameters / 1000
    assert not one.step.traffic


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["anchor.batches=3"], "anchor.batches 3 does not divide gradient_accumulation_steps 16"),
        (["anchor.engine=bank"], "use two_pass"),
        (["anchor.scope=nothing"], "matches no trained parameter"),
        (["about.gpu=h100"], "unknown about.gpu 'h100'; did you mean 'h100-80gb'"),
        (["model.name=nobody/nothing"], "config of 'nobody/nothing' cannot be read"),
        (["model.lora={target_modules: [nothing]}"], "the adapter does not fit"),
        (["noise.kind=shuffle"], "unknown noise.kind 'shuffle'"),
        (["data.train=nobody/nothing"], "could not fetch 'nobody/nothing'"),
        (["data.limit=4"], "4 pairs are fewer than the 8 processes"),
        (["train.lr_scheduler_type=cosin"], "the recipe's train section does not fit"),
    ],
)
def test_what_is_wrong_is_wrong_in_a_dry_run(overrides, words):
    with pytest.raises(InputError, match=re.escape(words)):
        dry("mistral-7b-instruct", *overrides)


def test_a_dry_run_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result, _ = printed("mini", "train.output_dir=out")
    assert result.exit_code == 0
    assert not list(tmp_path.iterdir())


def test_a_folder_is_read_for_its_own_sizes(tmp_path):
    model = tiny.llama()
    model.save_pretrained(tmp_path)
    tiny.tiny_tokenizer().save_pretrained(tmp_path)
    (one,) = dry("mini", "objective.name=gapo", f"model.name={tmp_path}")
    assert one.sizes.parameters == model.num_parameters()
    assert one.model_source == "its own config"
