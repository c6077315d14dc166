"""Every command and snippet of README and docs is run, or at least parsed; the site is built without a warning."""

import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser

import pytest
import torch
import typer
import yaml
from typer.main import get_command
from typer.testing import CliRunner

import gapo
import tiny
from docs_commands import ELSEWHERE, PAGES, ROOT, SHELL, SHORT, blocks, lines
from gapo.cli.main import app
from gapo.errors import InputError
from gapo.evaluate.verdicts import write_judging
from gapo.objectives import objectives
from gapo.runs.recipe import read_recipe, runs_of
from gapo.runs.run import config_from
from judgings import game, judging
from runs_of_tests import text_rows

NAMED = [pytest.param(page, id=page.name) for page in PAGES]


def said_by(arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder with all that the docs name: pairs, prompts, models, verdicts, and the runs of `gapo train mini`."""
    folder = tmp_path_factory.mktemp("docs")
    for name in ("DIR", "MODEL", "BASE"):
        tiny.llama(dtype=torch.float32).save_pretrained(folder / name)
        tiny.tiny_tokenizer().save_pretrained(folder / name)
    for name in ("pairs.jsonl", "PAIRS.jsonl"):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in text_rows(40)))
    (folder / "prompts.jsonl").write_text('{"prompt": "add 1 and 2"}\n{"prompt": "say hello"}\n')
    for name in ("judged", "judged/my-model", "judged/dpo", "judged/gapo"):
        games = (game(str(i), float(i % 3 > 0), ours=9 + i % 4, theirs=12 - i % 5) for i in range(24))
        write_judging(judging(games, model=name), folder / name)
    shutil.copytree(ROOT / "results" / "noise", folder / "results" / "noise")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("GAPO_CACHE", str(tmp_path_factory.mktemp("cache")))
        said_by(["train", "mini", *SHORT])
        yield folder


@pytest.fixture(scope="module")
def looked():
    """What was run so far."""
    return set()


@pytest.fixture
def workplace(prepared, tmp_path, monkeypatch):
    shutil.copytree(prepared, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


@pytest.mark.parametrize("page", NAMED)
def test_every_command_of_a_page_works(page, workplace, looked):
    for line in lines(page):
        if line.words[0] in ELSEWHERE or line.text == "gapo train mini":  # the latter has made the workplace
            continue
        if line.words[0] == "make":
            check_make(line.words[1:])
        elif line.words[0] == "pip":
            assert line.words[1:] == ["install", "."], line
        elif line.parsed_because:
            parse(line.words)
        else:
            assert line.run_with is not None, f"{page.name}: docs_commands.py neither runs nor parses {line.text!r}"
            if line.words[1] == "eval" and line.text in looked:  # it changes nothing, and another page shows it too
                continue
            looked.add(line.text)
            said_by([*line.words[1:], *line.run_with])


def parse(words):
    """By the real command line, down to the recipe's keys, knobs and arguments; nothing is executed."""
    if words[0] == "accelerate":
        config = words[words.index("--config_file") + 1]
        assert (ROOT / config).is_file()
        words = words[words.index("-m") + 1 :]
    context = get_command(app).make_context("gapo", words[1:], resilient_parsing=False)
    while hasattr(context.command, "commands"):
        rest = [*context._protected_args, *context.args]
        name, command, rest = context.command.resolve_command(context, rest)
        assert command is not None, words
        context = command.make_context(name, rest, parent=context)
    if context.info_name == "train" and not context.params["recipe"].startswith("runs/"):
        complete = read_recipe(context.params["recipe"], list(context.params["overrides"] or []))
        complete["train"] |= {"output_dir": "out", "use_cpu": True}
        for recipe in runs_of(complete):
            config_from(recipe)


def check_make(targets):
    makefile = (ROOT / "Makefile").read_text()
    for target in targets:
        assert re.search(rf"^{target}:", makefile, flags=re.M), target


@pytest.mark.parametrize(
    "page", [page for page in NAMED if any(b.language == "python" for b in blocks(page.values[0]))]
)
def test_python_snippets_run(page, workplace):
    for block in blocks(page):
        if block.language == "python":
            exec(compile(block.text, page.name, "exec"), {})


@pytest.mark.parametrize("page", NAMED)
def test_other_blocks_are_what_they_say(page, tmp_path):
    for block in blocks(page):
        if block.language == "json":
            for row in block.text.splitlines():
                assert {"prompt", "chosen", "rejected"} <= json.loads(row).keys()
        elif block.language == "yaml":  # a part of a recipe
            (tmp_path / "part.yaml").write_text(block.text)
            complete = read_recipe(str(tmp_path / "part.yaml"), [])
            assert set(yaml.safe_load(block.text)) <= set(complete)
        else:
            assert block.language in (*SHELL, "python"), f"{page.name}: no test knows what a {block.language} block is"


def test_a_wrong_option_or_key_in_a_parsed_line_is_found():
    with pytest.raises(typer.BadParameter.__mro__[1], match="No such option"):
        parse(["gapo", "study", "noise", "--sedes", "5"])
    with pytest.raises(InputError):
        parse(["gapo", "train", "quickstart", "objective.nam=dpo"])
    with pytest.raises(InputError):
        parse(["accelerate", "launch", "--config_file", "mkdocs.yml", "-m", "gapo", "train", "mistral-7b-instrct"])


def test_the_guide_has_every_objective_with_its_needs_and_knobs():
    guide = (ROOT / "docs" / "objectives.md").read_text().split("<!-- objectives -->")[1].split("<!-- end -->")[0]
    rows = {name: (needs, knobs) for name, needs, knobs in re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|", guide, re.M)}
    expected = {}
    for name, objective in objectives().items():
        needs = ", ".join(need.replace("_", " ") for need in objective.needs if need != "policy") or "-"
        expected[name] = (needs, ", ".join(f"{knob} {value}" for knob, value in objective.knobs.items()))
    assert rows == expected


def test_the_api_page_has_every_public_name():
    page = (ROOT / "docs" / "api.md").read_text()
    shown = [path.rsplit(".", 1)[1] for path in re.findall(r"^::: (\S+)", page, flags=re.M)]
    assert sorted(shown) == sorted(gapo.__all__)


class Loaded(HTMLParser):
    """Everything a page would fetch by itself."""

    def __init__(self):
        super().__init__()
        self.places = []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if "src" in given or (tag == "link" and given.get("rel") != "canonical"):
            self.places.append(given.get("src") or given.get("href") or "")


def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path):
    pytest.importorskip("mkdocs", reason="pip install 'gapo[docs]'")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path / "site")]
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (built.returncode, built.stdout + built.stderr) == (0, "")
    pages = sorted((tmp_path / "site").glob("*.html"))
    assert {page.stem for page in PAGES[1:]} <= {page.stem for page in pages}
    for page in pages:
        loaded = Loaded()
        loaded.feed(page.read_text(encoding="utf-8"))
        assert loaded.places
        for place in loaded.places:
            assert not re.match(r"(https?:)?//", place), f"{page.name} loads {place}"
    for sheet in (tmp_path / "site").rglob("*.css"):
        assert not re.search(r"(url\(|@import )['\"]?(https?:)?//", sheet.read_text(encoding="utf-8")), sheet
