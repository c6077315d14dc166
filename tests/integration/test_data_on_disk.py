"""Training from a store is training from memory, bit for bit; and a run starts from the cache of another."""

import json

import pytest
import torch
from typer.testing import CliRunner

import runs_of_tests
from gapo.cli.main import app
from gapo.errors import InputError
from gapo.pairs import files
from gapo.pairs.formats import load_pairs
from gapo.pairs.noise import flip
from gapo.pairs.token_cache import StoredTokens
from gapo.runs.data import load_data
from gapo.runs.recipe import differences, read_recipe, recipe_hash, resolved
from gapo.training.card import model_card
from gapo.training.dataset import encoded_pairs


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GAPO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(files, "SMALL_FILE", 0)
    return tmp_path / "cache"


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "train.jsonl"
    rows = [*runs_of_tests.text_rows(24), {"prompt": "hello", "chosen": "", "rejected": "no"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("objective", ["gapo", "dpo", "kto"])
def test_training_from_disk_is_training_from_memory(tmp_path, path, objective):
    found = []
    for choice in (False, True, True):
        noisy, _ = flip(load_pairs(path, cache=choice), 0.25)
        trained = runs_of_tests.trainer(
            tmp_path / f"run-{len(found)}", noisy, eval_rows=noisy[:5], objective=objective, cache_tokens=choice,
            cache_reference=True,
        )  # fmt: skip
        assert isinstance(trained.train_dataset.encoded, StoredTokens) == choice
        trained.train()
        found.append((runs_of_tests.weights(trained), trained.evaluate()["eval_loss"], model_card(trained)))
        lines = (tmp_path / f"run-{len(found) - 1}" / "steps.jsonl").read_text().splitlines()
        assert len(lines) == 3
    for weights, loss, card in found[1:]:
        assert torch.equal(weights, found[0][0])
        assert loss == found[0][1]
        assert card == found[0][2]


def test_workers_of_a_data_loader_read_the_same_store(tmp_path, path):
    found = [
        runs_of_tests.trainer(tmp_path / str(workers), path, cache_tokens=True, dataloader_num_workers=workers)
        for workers in (0, 2)
    ]
    for trained in found:
        trained.train()
    assert torch.equal(*(runs_of_tests.weights(trained) for trained in found))


def test_a_stream_trains_like_the_list_it_streams(tmp_path):
    import datasets

    rows = runs_of_tests.text_rows(12)
    stream = datasets.IterableDataset.from_generator(lambda: iter(rows))
    found = [runs_of_tests.trainer(tmp_path / str(i), each, cache_tokens=True) for i, each in enumerate((rows, stream))]
    for trained in found:
        trained.train()
    assert torch.equal(*(runs_of_tests.weights(trained) for trained in found))


def test_a_foreign_tokenizer_is_noticed_on_disk_too(tmp_path, path):
    model = runs_of_tests.tiny.llama(vocab_size=20)
    with pytest.raises(InputError, match=r"has token .* but the model knows 20"):
        runs_of_tests.trainer(tmp_path, path, model=model, cache_tokens=True)


def test_what_one_process_prepares_the_others_open(tmp_path, path, monkeypatch):
    recipe = resolved(
        {"data": {"train": str(path), "eval_fraction": 0.3, "cache_tokens": True}, "noise": {"rate": 0.2}}
    )
    encoder = runs_of_tests.trainer(tmp_path, path).encoder
    train, evaluation = load_data(recipe)
    encoded_pairs(train, encoder, cache=True)
    monkeypatch.setattr("gapo.pairs.tokenise.encode_block", None)
    monkeypatch.setattr("gapo.pairs.store.parse_row", None)
    again, _ = load_data(recipe)
    assert again == train
    opened = encoded_pairs(again, encoder, cache=True), encoded_pairs(evaluation, encoder, cache=True)
    assert opened[0].encoded.store.path == opened[1].encoded.store.path
    assert opened[0].flips() == (len(train), round(0.2 * len(train)))


def test_the_data_section_takes_the_keys_and_refuses_wrong_values():
    recipe = read_recipe("mini", ["data.cache_tokens=false", "data.tokenizer_processes=2"])
    assert recipe["data"]["cache_tokens"] is False
    for wrong in ("data.cache_tokens=maybe", "data.tokenizer_processes=0", "data.tokenizer_processes=true"):
        with pytest.raises(InputError, match=f"{wrong.partition('=')[0]} must be auto, or"):
            read_recipe("mini", [wrong])
    plain = read_recipe("mini")  # the pairs are the same, so the run is
    assert not differences(plain, recipe)
    assert recipe_hash(plain) == recipe_hash(recipe)


@pytest.mark.parametrize(("key", "value"), [("cache_tokens", "maybe"), ("tokenizer_processes", 0)])
def test_the_trainer_refuses_wrong_values(tmp_path, key, value):
    with pytest.raises(InputError, match=f"{key} must be auto"):
        runs_of_tests.trainer(tmp_path, **{key: value})


def test_a_run_from_disk_is_the_run_from_memory(tmp_path, cache):
    """The whole command, twice: the same record to the last digit."""
    found = []
    for choice in ("false", "true"):
        folder = tmp_path / choice
        save = ["data.train=lab", "data.limit=60", "data.eval_fraction=0.3", "noise.rate=0.25", "train.max_steps=2"]
        save += [f"data.cache_tokens={choice}", "train.use_cpu=true", f"train.output_dir={folder}"]
        done = CliRunner().invoke(app, ["train", "mini", "objective.name=gapo", *save])
        assert done.exit_code == 0, done.output
        evals = json.loads((folder / "evals.json").read_text())
        found.append({key: evals[key] for key in ("before", "after", "noise", "replies", "pairs", "steps")})
    assert found[0] == found[1]
    assert list((cache / "tokens").iterdir())


def test_the_command_says_where_the_cache_is(cache):
    assert str(cache) in CliRunner().invoke(app, ["list"]).output.replace("\n", "")


def test_the_bench_of_scale_writes_what_it_measured(tmp_path, monkeypatch):
    monkeypatch.setattr("gapo.bench.synthetic.LEARNT_FROM", 100)
    done = CliRunner().invoke(app, ["bench", "--scale", "--pairs", "40", "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    lines = [json.loads(line) for line in (tmp_path / "out" / "data.jsonl").read_text().splitlines()]
    assert [(line["pairs"], line["state"]) for line in lines] == [(40, "cold"), (40, "warm")]
    for line in lines:
        assert line["seconds"] == pytest.approx(sum(line["phases"].values()), abs=1e-3)
        assert line["peak_bytes"] > line["libraries_bytes"] > 0
    table = (tmp_path / "out" / "data.md").read_text()
    assert table.count("| 40 |") == 2
    assert str(tmp_path) not in table


@pytest.mark.parametrize("wrong", [["--scale", "--pairs", "many"], ["--scale", "--pairs", "0"], ["--pairs", "8,16"]])
def test_wrong_sizes_are_answered(wrong):
    done = CliRunner().invoke(app, ["bench", *wrong])
    assert isinstance(done.exception, InputError)
    assert "--pairs" in str(done.exception)
