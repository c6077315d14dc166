"""AlpacaEval 2's published win rates of 30 models, plain and length-controlled, from their annotations."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

from gapo.evaluate.length_data import length_data
from gapo.evaluate.scores import length_controlled, scores_of, win_rate
from judgings import game, judging

DATA = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "alpacaeval2"
pytestmark = pytest.mark.skipif(not DATA.exists(), reason="alpacaeval2 is not beside the project; it is never shipped")


@pytest.fixture(scope="module")
def published():
    with open(DATA / "published.csv", newline="") as lines:
        return {row[""]: row for row in csv.DictReader(lines)}


@pytest.fixture(scope="module")
def judged(published):
    games: dict[str, list] = {name: [] for name in published}
    with gzip.open(DATA / "annotations.csv.gz", "rt", newline="") as lines:
        for row in csv.DictReader(lines):
            lengths = {"ours": int(row["len_2"]), "theirs": int(row["len_1"])}
            games[row["model"]].append(game(row["index"], float(row["preference"]) - 1, **lengths))
    about = {"bench": "alpacaeval", "reference": "gpt4_1106_preview"}
    return {name: judging(verdicts, model=name, **about) for name, verdicts in games.items()}


def test_win_rates_are_the_published_ones(judged, published):
    for name, one in judged.items():
        found = win_rate(one)
        assert found.value == pytest.approx(float(published[name]["win_rate"]), abs=1e-6)
        assert found.n == int(published[name]["n_total"])


def test_length_controlled_win_rates_are_the_published_ones(judged, published):
    data = length_data(DATA)
    far = {
        name: abs(length_controlled(one, *data).value - float(published[name]["length_controlled_winrate"]))
        for name, one in judged.items()
    }
    assert len(far) == 30
    assert max(far.values()) < 0.2, max(far, key=far.__getitem__)
    assert np.median(list(far.values())) < 0.05


def test_without_gamed_rows_it_would_be_another_number(judged, published):
    """So the rows are no decoration: the score at equal lengths of the model's own games is points away."""
    name = "text_davinci_001"
    alone = length_controlled(judged[name], None, None).value
    assert abs(alone - float(published[name]["length_controlled_winrate"])) > 2


def test_reconstructed_rows_do_not_earn_the_official_name(judged):
    scores = scores_of(judged["claude"], DATA)
    assert [score.name for score in scores] == [
        "win rate on AlpacaEval's questions",
        "length-controlled win rate on AlpacaEval's questions",
    ]
    assert "the rows of the gamed baselines are not the official ones" in scores[1].facts["not_official_because"]
