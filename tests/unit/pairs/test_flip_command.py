"""gapo flip, as a person runs it."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from gapo.cli.flip import flip
from gapo.errors import InputError
from gapo.pairs.files import save_pairs
from gapo.pairs.formats import load_pairs
from gapo.pairs.pair import PairSet, PreferencePair

TEN = PairSet(tuple(PreferencePair(f"p{i}", "long answer" if i < 3 else "no", "short") for i in range(10)))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    save_pairs(TEN, tmp_path / "in.jsonl")
    return tmp_path / "in.jsonl"


def run(*arguments: object) -> Result:
    app = typer.Typer(rich_markup_mode=None)  # plain help, whatever the terminal
    app.command()(flip)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_it_writes_the_noisy_set_and_says_so_in_one_line(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    result = run(source, out, "--rate", 0.2, "--kind", "random", "--seed", 0)
    assert result.exit_code == 0, result.output
    assert result.output == f"flipped 2 of 10 pairs (random, rate 0.2, seed 0) -> {out}\n"
    assert sum(map(bool, load_pairs(out).flipped)) == 2


def test_it_does_not_overwrite_unless_told(source: Path) -> None:
    refused = run(source, source)
    assert isinstance(refused.exception, InputError)
    assert "exists; add --force" in str(refused.exception)
    assert load_pairs(source) == TEN
    assert run(source, source, "--force").exit_code == 0
    assert load_pairs(source) != TEN


def test_shortfalls_and_bad_rows_are_told_as_plain_lines(source: Path, tmp_path: Path) -> None:
    with source.open("a") as file:
        file.write("nonsense\n")
    result = run(source, tmp_path / "out.jsonl", "--rate", 0.5, "--kind", "length")
    assert result.output.splitlines() == [
        f"flipped 3 of 10 pairs (length, rate 0.5, seed 0) -> {tmp_path / 'out.jsonl'}",
        "flip rule 'length' found only 3 pairs where 5 were asked for; it flipped all of them",
        "1 row left out: not JSON (first: in.jsonl:11, expecting value at column 1)",
    ]


def test_an_unknown_suffix_is_told_before_any_work(tmp_path: Path) -> None:
    result = run(tmp_path / "absent.jsonl", tmp_path / "out.txt")
    assert "out.txt is of an unknown kind" in str(result.exception)


def test_help_shows_an_example() -> None:
    assert "gapo flip train.jsonl noisy.jsonl --rate 0.2" in run("--help").output
