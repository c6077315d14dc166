"""The table of a model beside a base: what is paired, what is in percent, what the words say."""

import json

import numpy as np
import pytest

from gapo.evaluate.comparison import Measure, as_object, compare, reward_measures, score_measures, task_measures
from gapo.evaluate.comparison_words import PERCENT, cells, markdown
from gapo.evaluate.quantity import Quantity
from gapo.evaluate.reward_subsets import PairRewards
from gapo.evaluate.scores import scores_of
from gapo.evaluate.verdicts import Judging, Verdict


def rewards(gain):
    n = len(gain)
    ids = tuple(f"p{i}" for i in range(n))
    return PairRewards(ids, np.array(gain), np.arange(n) % 3 + 1, np.full(n, 2), ["a", "b"] * (n // 2), ids)


def judging(model, preferences):
    verdicts = tuple(
        Verdict(str(i), 0, False, p, 1, "ok" if p is not None else "empty", "", "", 10, 12, "")
        for i, p in enumerate(preferences)
    )
    return Judging("mine.jsonl", "v", False, model, "ref", "truth", "", "quality@1", {}, {}, verdicts)


def test_reward_rows_hold_paired_differences_in_points():
    ours, theirs = [1.0, 1.0, -1.0, 1.0, 2.0, -1.0], [1.0, -1.0, -1.0, -1.0, 1.0, 1.0]
    rows = {row.name: row for row in compare(reward_measures(rewards(ours), {}), reward_measures(rewards(theirs), {}))}
    row = rows["reward accuracy"]
    assert (row.model.value, row.base.value) == pytest.approx((100 * 4 / 6, 100 * 3 / 6))
    assert (row.difference.value, row.difference.n) == (pytest.approx(100 / 6), 6)
    assert row.difference.low < row.difference.value < row.difference.high
    longer = rows["longer wins"]  # pairs 0, 2, 3 and 5 differ in length: the model never prefers the longer
    assert (longer.model.value, longer.base.value, longer.difference.value, longer.difference.n) == (0, 50, -50, 4)
    assert rows["margin"].difference.value == pytest.approx(np.mean(np.array(ours) - theirs))
    assert rows["reward accuracy, a"].model.value == pytest.approx(100 * np.mean(np.array(ours)[::2] > 0))
    assert rows["accuracy where the shorter is chosen"].difference.n == 2  # characters 1, 2, 3, 1, 2, 3 beside 2


def test_only_the_plain_win_rate_is_paired_and_dropped_games_do_not_count():
    ours, theirs = judging("m", [1.0, 0.5, 0.9, None]), judging("b", [0.0, 0.5, 0.3, 1.0])
    rows = compare(score_measures(scores_of(ours), ours), score_measures(scores_of(theirs), theirs))
    plain = next(row for row in rows if "equal lengths" not in row.name and row.model)
    assert plain.model.value == pytest.approx(80.0)
    assert (plain.difference.value, plain.difference.n) == (pytest.approx(100 * 1.6 / 3), 3)
    assert all(row.difference is None for row in rows if row is not plain)
    assert len(rows) == 2
    assert plain.facts["judge"] == "truth"
    assert plain.facts["dropped"] == {"empty": 1}


def test_tasks_are_paired_by_item_and_name_their_conditions():
    def result(values):
        metric = {"value": float(np.mean(values)), "low": 0.1, "high": 0.9, "n": 4, "standard_error": None}
        items = {f"{i}:x": float(v) for i, v in enumerate(values)}
        task = {"version": 3.0, "num_fewshot": 5, "n": 4, "of": 1319, "complete": False}
        about = {
            "lm_eval": "0.4.13",
            "limit": 4,
            "chat_template": False,
            "max_new_tokens": None,
            "seed": 1,
            "data": "x",
        }
        return about | {"tasks": {"gsm8k": task | {"metrics": {"acc,none": metric}, "items": {"acc,none": items}}}}

    (row,) = compare(task_measures(result([1, 1, 0, 1])), task_measures(result([0, 1, 0, 0])))
    assert (row.name, row.unit, row.model.value, row.difference.value) == ("gsm8k acc", PERCENT, 75.0, 50.0)
    comparison = as_object([row], "m", "b", {})
    text = markdown(comparison)
    assert "75.0 (10.0 to 90.0)" in text
    assert "+50.0 (" in text
    assert "lm_eval 0.4.13, limit 4, chat_template no" in text
    assert json.loads(json.dumps(comparison, allow_nan=False)) == comparison


def test_a_measure_of_one_model_alone_has_a_row_and_no_difference():
    only = Measure("drift", "KL", "nats per token", Quantity(0.25, 0.2, 0.3, 9))
    (row,) = compare([only], [])
    assert (row.base, row.difference) == (None, None)
    assert cells(as_object([row], "m", "b", {})["rows"][0]) == [
        "KL (nats per token)",
        "0.250 (0.200 to 0.300)",
        "-",
        "-",
        "9",
    ]


def test_groups_stand_in_one_order():
    rows = compare([Measure(g, g, "", None) for g in ("drift", "reward accuracy", "alignment", "reasoning")], [])
    assert [row.group for row in rows] == ["alignment", "reasoning", "reward accuracy", "drift"]
