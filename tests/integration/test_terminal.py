"""What a person sees of a command: a bar on a terminal, plain lines elsewhere, one object, or nothing."""

import json
import os
import re
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gapo.cli.main import app, main
from gapo.cli.terminal import PAUSE, Meter, Voice

SRC = Path(__file__).parents[2] / "src"
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
CONTROL = re.compile(r"[^\n\x20-\x7e\x80-\U0010ffff]")  # what a plain log must not hold
NUMBERS = r"loss \d+\.\d{3}  margin [+-]\d\.\d{3}  acc \d+%  gap -?\d\.\d{3}  weight \d\.\d\d"


TRAIN = ["train", "mini", "model.name=model", "data.train=pairs.jsonl", "objective.name=gapo", "train.max_steps=20"]
TRAIN += ["train.per_device_train_batch_size=4", "train.use_cpu=true", "train.output_dir=out"]


def gapo(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def seen_on_a_terminal(arguments, *, columns, **environment):
    """Everything a command writes to a terminal so wide, and its exit code."""
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    paths = os.pathsep.join([str(SRC), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "TERM": "xterm-256color", "PYTHONPATH": paths, **environment}
    environment.pop("COLUMNS", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "gapo", *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other side is closed: Linux says so by an error
            break
        if not part:
            break
        seen += part
    os.close(ours)
    return seen.decode(), process.wait()


def test_a_lab_run_on_a_narrow_terminal_shows_one_bar_with_its_numbers(tmp_path):
    arguments = ["train", "mini", "objective.name=gapo", "data.limit=64", "data.eval_limit=16", "train.max_steps=4"]
    arguments += ["train.per_device_train_batch_size=8", f"train.output_dir={tmp_path / 'run'}"]
    seen, code = seen_on_a_terminal(arguments, columns=60, NO_COLOR="1", GAPO_CACHE=str(tmp_path / "cache"))
    assert code == 0, seen
    drawn = ESCAPE.sub("", seen)
    assert re.search(r"gapo ━+.* [1-4]/4", drawn)
    assert re.search(NUMBERS, drawn)
    assert re.search(r"about \d+ s left", drawn)
    assert not re.search(r"it/s|\d%\|", drawn)  # tqdm's
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", seen)  # NO_COLOR
    lines = drawn.replace("\r", "\n").splitlines()
    shown = [line for line in lines if str(tmp_path) not in line]  # paths are never broken
    assert max(map(len, shown)) <= 60
    left = drawn[drawn.rindex("Reward accuracy") :]
    assert "━" not in left  # the bar is gone when the result stands
    assert re.search(r"gapo +\d+\.\d% \d+\.\d% \d+\.\d% - \d+\.\d%", left)
    assert "…" not in left  # the table fits


def test_elsewhere_there_are_plain_lines_now_and_then(folder):
    result = gapo(*TRAIN)
    assert not CONTROL.search(result.output)
    told = re.findall(rf"^gapo (\d+)/20  {NUMBERS}  (.*)$", result.stderr, flags=re.M)
    assert [int(step) for step, _ in told] == [1, *range(2, 21, 2)]
    assert all(re.fullmatch(r"about \d+ s left", left) for _, left in told[:-1])
    steps = [json.loads(line) for line in (folder / "out" / "steps.jsonl").read_text().splitlines()]
    last = re.findall(NUMBERS, result.stderr)[-1]
    assert last.startswith(f"loss {steps[-1]['loss']:.3f}  margin {steps[-1]['margin']:+.3f}")
    assert "report.html" in result.stdout
    assert "loss" not in result.stdout


def test_json_is_one_object_on_stdout_with_the_result_and_its_paths(folder):
    result = gapo(*TRAIN, "--json")
    found = json.loads(result.stdout)
    assert Path(found["report"]).is_file()
    (run,) = found["runs"]
    assert (Path(run["model"]) / "model.safetensors").is_file()
    evals = json.loads((folder / "out" / "evals.json").read_text())
    assert {key: run[key] for key in evals} == evals
    assert "Reward accuracy" in result.stderr
    flipped = json.loads(gapo("flip", "pairs.jsonl", "noisy.jsonl", "--json").stdout)
    assert (flipped["path"], flipped["pairs"], flipped["flipped"]) == ("noisy.jsonl", 40, 8)
    page = json.loads(gapo("report", "out", "--json").stdout)["page"]
    assert Path(page).is_file()
    reward = json.loads(gapo("eval", "reward", "out", "--data", "pairs.jsonl", "--json").stdout)
    assert Path(reward["results"]).is_file()
    assert 0 <= reward["accuracy"]["value"] <= 1


def test_quiet_says_nothing_unless_something_is_wrong(folder, capsys, monkeypatch):
    assert gapo(*TRAIN, "--quiet").output == ""
    assert (folder / "out" / "report.html").is_file()
    assert gapo("flip", "pairs.jsonl", "noisy.jsonl", "--quiet").output == ""
    monkeypatch.setattr(sys, "argv", ["gapo", *TRAIN, "--quiet"])
    with pytest.raises(SystemExit) as leaving:
        main()
    assert leaving.value.code == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "out" in told.err
    assert told.err.startswith("gapo: ")


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (["list"], "recipes"),
        (["doctor"], "versions"),
        (["study", "list"], "studies"),
        (["train", "mini", "--show"], "data"),
    ],
)
def test_what_there_is_can_be_read_by_a_program(arguments, key):
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert json.loads(result.stdout)[key]


class Clock:
    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr("gapo.cli.terminal.time.monotonic", lambda: self.now)


def test_a_meter_speaks_at_tenths_and_after_a_pause(monkeypatch, capsys):
    clock, voice = Clock(monkeypatch), Voice()
    meter = Meter(voice, "games", 1000, 200)
    for done in (201, 202):
        clock.now += 1
        meter.reach(done)
    clock.now += PAUSE
    meter.reach(203, "1 empty")
    clock.now += 1
    meter.reach(300)
    assert capsys.readouterr().err.splitlines() == [
        "games 201/1000  about 13 min left",
        "games 203/1000  1 empty  about 2 h 22 min left",
        "games 300/1000  about 4 min left",
    ]


def test_brief_work_is_worth_no_line_unless_it_takes_long(monkeypatch, capsys):
    clock = Clock(monkeypatch)
    with Voice().meter("evaluation", 3, brief=True) as meter:
        assert list(meter.over("abc")) == ["a", "b", "c"]
        assert capsys.readouterr().err == ""
    with Voice().meter("evaluation", 3, brief=True) as meter:
        clock.now += PAUSE
        meter.reach(1)
    assert capsys.readouterr().err == "evaluation 1/3  about 60 s left\n"
