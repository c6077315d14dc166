"""Keys and tokens are in the environment, in the request they belong to, and nowhere else."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

from gapo.cli.main import app
from gapo.errors import InputError
from gapo.evaluate.endpoint import Endpoint
from gapo.report.pair_blocks import unpack
from gapo.runs.discretion import HIDDEN, without_secrets
from gapo.runs.recipe import read_recipe
from gapo.training.config import PreferenceConfig
from judged import files, one_token
from loopback import Says, Server

CANARIES = {
    "OPENAI_API_KEY": "sk-canary-3f9d1c77e0b24a55",
    "HF_TOKEN": "hf_CanaryCanaryCanary4711",
    "DATABASE_PASSWORD": "canary+pass/word=1",
    "AWS_SECRET_ACCESS_KEY": "canaryAWS9d2/77Qx",
}


def gapo(*words: object) -> str:
    """The command as a person runs it; all it has said."""
    line = [str(word) for word in words]
    sys.argv = ["gapo", *line]  # where a run takes its command from
    result = CliRunner().invoke(app, line)
    assert result.exit_code == 0, result.output
    return str(result.output) + str(result.stderr)


def content_of(path: Path) -> bytes:
    """The bytes of a file, and what is packed inside of them."""
    found = path.read_bytes()
    if path.suffix == ".parquet":
        found += repr(pq.read_table(path).to_pylist()).encode()
    if path.suffix == ".html":
        blocks = re.findall(rb'class="explorer-(?:light|block)">([^<]*)<', found)
        found += repr([unpack(block.decode()) for block in blocks]).encode()
    if path.name == "training_args.bin":
        found += repr(vars(torch.load(path, weights_only=False))).encode()  # written here, a moment ago
    return found


@pytest.fixture(scope="module")
def worked(tmp_path_factory):
    """A folder in which every command that writes has worked with secrets around it, and what they said."""
    folder = tmp_path_factory.mktemp("worked")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", [])
        for name, value in {**CANARIES, "GAPO_CACHE": "cache", "NO_PROXY": "127.0.0.1"}.items():
            patch.setenv(name, value)
        key = CANARIES["OPENAI_API_KEY"]
        small = ["data.limit=24", "data.eval_limit=8", "train.max_steps=2", "train.per_device_train_batch_size=8"]
        small += ["train.save_strategy=steps", "train.save_steps=2", "train.disable_tqdm=true"]
        said = gapo("train", "mini", "objective.name=gapo", *small, "train.output_dir=run")
        said += gapo("audit", "lab", "--model", "lab", "--limit", 8, "--batch-pairs", 4, "--out", "audit")
        prompts, ours, theirs = files(folder, 4)
        said += gapo("generate", "lab", "--bench", prompts, "--out", "made.jsonl", "--max-new-tokens", 4)
        talkative = Says({"choices": [{"message": {"content": f"your key is {key}"}, "finish_reason": "stop"}]})
        with Server(lambda body, number: talkative if number == 0 else one_token(body, number)) as server:
            judging = ("judge", ours, "--against", theirs, "--bench", prompts, "--base-url", server.url)
            said += gapo(*judging, "--model", "judge-1", "--out", "judged", "--yes", "--concurrency", 1)
            assert set(server.keys) == {f"Bearer {key}"}  # it did arrive where it belongs
        said += gapo("report", "run")
        said += gapo("doctor")
    return folder, said


def test_no_file_and_no_word_holds_a_secret(worked):
    folder, said = worked
    written = [path for path in folder.rglob("*") if path.is_file()]
    names = {path.name for path in written}
    assert {"environment.json", "recipe.yaml", "report.html", "audit.json", "made.jsonl", "training_args.bin"} <= names
    assert any("cache" in path.parts for path in written)
    for name, value in CANARIES.items():
        assert value not in said, name
        assert not [path for path in written if value.encode() in content_of(path)], name


def test_the_environment_of_a_run_is_versions_and_not_variables(worked):
    text = (worked[0] / "run" / "environment.json").read_text()
    assert '"torch"' in text
    for word in ("HOME", "PATH", "API_KEY", "HF_TOKEN", str(Path.home())):
        assert word not in text


@pytest.mark.parametrize(
    ("word", "kept"),
    [
        ("train.run_name=sk-canary-3f9d1c77e0b24a55", f"train.run_name={HIDDEN}"),
        ("--key=hf_AnotherOneThatNoVariableHolds", f"--key={HIDDEN}"),
        ("--base-url=https://user:pass@host/v1", f"--base-url=https://{HIDDEN}@host/v1"),
        ("canary+pass/word=1", HIDDEN),
        ("data.train=hf_data/pairs.jsonl", "data.train=hf_data/pairs.jsonl"),
        ("model.name=org/sk-model", "model.name=org/sk-model"),
        ("none", "none"),
    ],
)
def test_a_command_is_written_down_without_what_is_secret_in_it(word, kept):
    assert without_secrets(["gapo", word], {**CANARIES, "X_TOKEN": "none", "HOME": "gapo-gapo-gapo"}) == ["gapo", kept]


def test_a_token_for_the_hub_is_not_taken_into_a_recipe_or_a_checkpoint(tmp_path):
    token = CANARIES["HF_TOKEN"]
    with pytest.raises(InputError, match=r"\$HF_TOKEN") as from_recipe:
        read_recipe("mini", [f"train.hub_token={token}"])
    with pytest.raises(InputError, match=r"\$HF_TOKEN") as from_python:
        PreferenceConfig(output_dir=str(tmp_path), hub_token=token)
    assert token not in str(from_recipe.value) + str(from_python.value)


@pytest.mark.parametrize(
    "given",
    [
        {"base_url": "https://user:canary@host/v1"},
        {"base_url": "https://canary@host/v1"},
        {"base_url": "https://host/v1?key=canary"},
        {"base_url": "canary@host"},
        {"base_url": "https://host/v1", "key_variable": "sk-canary-3f9d"},
    ],
)
def test_a_key_in_the_wrong_place_is_refused_and_not_repeated(given):
    with pytest.raises(InputError) as error:
        Endpoint(**given, model="m")
    assert "canary" not in str(error.value)
