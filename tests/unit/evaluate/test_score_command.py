"""`gapo score` from the command line: table, JSON, Markdown."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from gapo.cli.main import app
from gapo.errors import InputError
from gapo.evaluate.length_data import length_data
from gapo.evaluate.scores import length_controlled, win_rate
from gapo.evaluate.verdicts import write_judging
from judgings import OFFICIAL_ALPACA, game, judging, one_game_each


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["score", *map(str, arguments)], env={"COLUMNS": "300"}, catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


@pytest.fixture
def alpaca(tmp_path):
    """A judging of all 805 questions, and invented rows of gamed baselines."""
    rng = np.random.default_rng(0)
    one = one_game_each(rng.uniform(0, 1, 805), *rng.integers(1, 3000, (2, 805)), **OFFICIAL_ALPACA)
    write_judging(one, tmp_path / "judged")
    lines = ["model,preference,index,std_delta_len,instruction_difficulty,not_gamed_baseline"]
    hard = rng.normal(0, 1, 805)
    for name in ("verbose", "concise"):
        lines += [f"{name},{rng.uniform()},{i},{rng.normal()},{hard[i]},False" for i in range(805)]
    (tmp_path / "df_gamed.csv").write_text("\n".join(lines) + "\n")
    return one, tmp_path


def test_a_folder_gets_its_scores(alpaca):
    one, folder = alpaca
    said = run(folder / "judged", "--data-dir", folder)
    plain, controlled = win_rate(one), length_controlled(one, *length_data(folder))
    written = json.loads((folder / "judged" / "scores.json").read_text())
    assert [row["value"] for row in written] == [plain.value, controlled.value]
    assert written[0]["facts"]["prompt"] == "alpaca_eval_clf@official"
    assert written[0]["name"] == "AlpacaEval 2.0 win rate"
    assert written[1]["name"] == "length-controlled win rate on AlpacaEval's questions"  # not the official rows
    table = (folder / "judged" / "scores.md").read_text()
    for text in (said, table):
        assert f"{controlled.value:.2f}" in text
        assert (
            "AlpacaEval's questions: not official, for the rows of the gamed baselines are not the official ones"
            in text
        )


def test_several_go_to_one_place(tmp_path):
    write_judging(judging([game("1", 1.0), game("2", None, status="truncated")], model="one"), tmp_path / "a")
    write_judging(judging([game("1", 0.0), game("2", 1.0)], model="two"), tmp_path / "b")
    said = run(tmp_path / "a", tmp_path / "b", "--out", tmp_path / "out")
    assert "1 truncated" in said
    rows = json.loads((tmp_path / "out" / "scores.json").read_text())
    assert [row["facts"]["model"] for row in rows] == ["one", "one", "two", "two"]
    assert (tmp_path / "out" / "scores.md").read_text().count("| win rate on") == 2
    assert not (tmp_path / "a" / "scores.json").exists()


def test_arena_hard_from_a_folder(tmp_path):
    games = [game(f"q{i}", 1.0, game=place, weight=3) for i in range(4) for place in (0, 1)]
    write_judging(judging([*games, game("q9", 0.0)], bench="arena-hard"), tmp_path)
    assert "96.00" in run(tmp_path, "--draws", 50)
    assert json.loads((tmp_path / "scores.json").read_text())[0]["facts"]["draws"] == 50


def test_a_folder_without_verdicts_is_named(tmp_path):
    with pytest.raises(InputError, match="holds no judging"):
        run(tmp_path)


def test_a_broken_file_of_gamed_rows_is_named(tmp_path):
    (tmp_path / "df_gamed.csv").write_text("index,preference\n0,1\n")
    with pytest.raises(InputError, match="has no column std_delta_len"):
        length_data(tmp_path)
    (tmp_path / "df_gamed.csv").write_text("index,preference,std_delta_len,instruction_difficulty\n0,1,nan,0\n")
    with pytest.raises(InputError, match="no finite number"):
        length_data(tmp_path)
