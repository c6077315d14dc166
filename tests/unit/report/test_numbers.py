"""The numbers on the page: files read, statistics, tables, sentences, figures."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapo.report import figures, read_run, results, sentences, tables
from gapo.report.pair_weights import late_pairs, length_terms, tiers, weights_over_training
from gapo.report.smoothing import running_mean, thinned
from gapo.report.statistics import Interval, difference, ranks, relative_change, spearman, wilson
from gapo.report.wording import duration, percent, signed


def words(text: str) -> str:
    return text.replace("\u00a0", " ").replace("\u2212", "-")


# ---- files ----


def test_a_cut_off_last_line_costs_one_step(make_run):
    path = make_run(steps=10) / "steps.jsonl"
    path.write_text(path.read_text()[:-30])
    run = read_run(path.parent)
    assert run.step_count() == 9
    assert "cut off" in run.problems[0]


def test_a_resumed_run_counts_each_step_once_and_keeps_the_later_line(make_run):
    path = make_run(steps=4) / "steps.jsonl"
    path.write_text(path.read_text() + json.dumps({"step": 3, "loss": 9.0}) + "\n")
    run = read_run(path.parent)
    assert run.steps["step"].tolist() == [1, 2, 3, 4]
    assert run.steps["loss"][2] == 9.0


def test_null_becomes_nan_and_an_empty_column_disappears(make_run):
    path = make_run(steps=3) / "steps.jsonl"
    rows = [{"step": 1, "loss": None, "gap_mean": None}, {"step": 2, "loss": 0.5, "gap_mean": None}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    steps = read_run(path.parent).steps
    np.testing.assert_array_equal(steps["loss"], [np.nan, 0.5])
    assert "gap_mean" not in steps


# ---- statistics ----


def test_wilson_agrees_with_the_published_example():
    low, high = wilson(81 / 263, 263)  # Newcombe 1998, table I
    assert (round(low, 4), round(high, 4)) == (0.2553, 0.3662)


def test_difference_agrees_with_the_published_example():
    found = difference(56 / 70, wilson(56 / 70, 70), 48 / 80, wilson(48 / 80, 80))  # Newcombe 1998, table II
    assert (round(found.low, 4), round(found.high, 4)) == (0.0524, 0.3339)


def test_ranks_share_ties_and_spearman_sees_only_order():
    assert ranks(np.array([3.0, 1.0, 3.0])).tolist() == [1.5, 0.0, 1.5]
    x = np.arange(1.0, 9.0)
    assert spearman(x, np.exp(x))[0] == pytest.approx(1)
    assert spearman(x, np.ones(8)) is None


def test_spearman_agrees_with_scipy():
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 9, 50).astype(float), rng.normal(size=50)
    assert spearman(x, y)[0] == pytest.approx(stats.spearmanr(x, y).statistic)


def test_the_interval_of_a_relative_change_covers_about_95_percent():
    rng = np.random.default_rng(0)
    hits = sum(relative_change(rng.normal(0.8, 0.3, 60), rng.normal(1, 0.3, 200))[1].holds(-0.2) for _ in range(1000))
    assert 930 <= hits <= 970


def test_a_running_mean_skips_what_is_not_known():
    assert running_mean(np.array([1.0, np.nan, 3.0]), 3).tolist() == [1.0, 2.0, 3.0]


def test_thinning_keeps_means_and_extremes():
    steps = {
        "step": np.arange(10.0),
        "loss": np.arange(10.0),
        "weight_min": np.arange(10.0),
        "weight_max": np.arange(10.0),
    }
    thin = thinned(steps, limit=5)
    assert thin["loss"].tolist() == [0.5, 2.5, 4.5, 6.5, 8.5]
    assert thin["weight_min"].tolist() == [0, 2, 4, 6, 8]
    assert thin["weight_max"].tolist() == [1, 3, 5, 7, 9]
    assert thinned(steps, limit=10) is steps


# ---- pairs ----


def pair_table() -> pa.Table:
    """Eight steps of five pairs; only steps 7 and 8 are the last quarter. Pair a is seen in both."""
    ids = ["a", "b", "c", "d", "e", "a", "f", "g", "h", "i"]
    late = {
        "step": [7] * 5 + [8] * 5,
        "pair_id": ids,
        "weight": [0.1, 0.3, 0.4, 0.5, 0.6, 0.3, 0.7, 0.8, 0.9, 1.0],
        "flipped": [True, False, True, None, False, True, False, False, False, True],
        "chosen_tokens": [10] * 10,
        "rejected_tokens": [2, 4, 5, 10, 20, 2, 4, 5, 10, 20],
    }
    early = {
        "step": [step for step in range(1, 7) for _ in range(5)],
        "pair_id": [f"early-{at}" for at in range(30)],
        "weight": [9.0] * 30,
        "flipped": [True] * 30,
        "chosen_tokens": [1] * 30,
        "rejected_tokens": [1] * 30,
    }
    return pa.table({name: early[name] + late[name] for name in late})


def test_tiers_by_hand():
    pairs = late_pairs(pair_table())
    assert (pairs.first_step, pairs.last_step, len(pairs)) == (7, 8, 9)
    assert pairs.columns["weight"][list(pairs.pair_id).index("a")] == pytest.approx(0.2)
    # known labels by weight: a(flipped) | b c(flipped) e f g h | i(flipped): 8 pairs, a fifth is 1
    assert [(tier.pairs, tier.flipped) for tier in tiers(pairs)] == [(1, 1), (6, 1), (1, 1)]
    table = tables.tier_table(tiers(pairs))
    assert [words(cell) for cell in table.rows[1][:4]] == ["middle 60 %", "6", "1", "16.7 %"]


def test_too_few_pairs_make_no_tiers():
    table = pair_table().slice(36)
    assert tiers(late_pairs(table)) == ()


def test_clean_and_flipped_weights_by_hand():
    weights = weights_over_training(pair_table(), bins=4)
    assert weights["step"].tolist() == [1.5, 3.5, 5.5, 7.5]
    assert weights["flipped_mean"].tolist() == pytest.approx([9, 9, 9, (0.1 + 0.4 + 0.3 + 1.0) / 4])
    assert weights["clean_mean"][3] == pytest.approx((0.3 + 0.6 + 0.7 + 0.8 + 0.9) / 5)
    assert np.isnan(weights["clean_mean"][:3]).all()


def test_length_term_by_hand():
    pairs = late_pairs(pair_table())
    term, weight = length_terms(pairs)
    at = list(pairs.pair_id).index("e")
    assert (term[at], weight[at]) == (pytest.approx(1 / 10 + 1 / 20), 0.6)


def test_extreme_pairs_are_the_least_and_the_most():
    pairs = late_pairs(pair_table())
    assert [row[0] for row in tables.extreme_pairs(pairs, highest=False, count=3).rows] == ["a", "b", "c"]
    [top] = tables.extreme_pairs(pairs, highest=True, count=1).rows
    assert (top[0], top[-2:]) == ("i", ("10 / 20", "flipped"))


def test_the_weight_sentence_gives_both_means_and_the_difference(make_run):
    pairs = late_pairs(read_run(make_run(steps=80, per_step=20)).pairs)
    clean, flipped = pairs.weights(0), pairs.weights(1)
    text = words(sentences.weight_sentence(pairs))
    assert text.startswith("Over steps 61 to 80")
    assert f"flipped pairs weigh {100 * (1 - flipped.mean() / clean.mean()):.1f} % less" in text


# ---- comparison ----


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (0.80, "a difference for b, beyond chance"),
        (0.60, "a difference against b, beyond chance"),
        (0.72, "That is within the interval, so these runs do not tell the two apart"),
    ],
)
def test_the_comparison_says_for_against_or_open(make_run, after, expected):
    runs = [read_run(make_run("a", after=0.70, steps=2)), read_run(make_run("b", after=after, steps=2))]
    text = words(sentences.comparison_sentence(runs, ["a", "b"]))
    assert expected in text
    assert f"b reached {100 * after:.1f} % reward accuracy" in text


def test_several_runs_are_sorted_by_verdict(make_run):
    names = ["base", "up", "down", "same"]
    runs = [read_run(make_run(n, after=a, steps=2)) for n, a in zip(names, (0.7, 0.8, 0.6, 0.71), strict=True)]
    assert words(sentences.comparison_sentence(runs, names)) == (
        "Against base (70.0 % reward accuracy), up (+10.0 points) is clearly higher; "
        "down (-10.0 points) is clearly lower; "
        "same (+1.0 points) cannot be told from it, the difference being within the interval."
    )


def test_without_intervals_nobody_claims_a_difference(make_run):
    evals = {"pairs": None, "after": {"accuracy": 0.9}}
    runs = [read_run(make_run("a", steps=2)), read_run(make_run("b", steps=2, evals=evals))]
    assert "nobody can say" in sentences.comparison_sentence(runs, ["a", "b"])


def test_an_interval_that_is_not_given_is_wilsons(make_run):
    run = read_run(make_run(steps=2, evals={"after": {"accuracy": 0.75}, "pairs": 400}))
    assert results.accuracy(run, "after").interval == wilson(0.75, 400)


def test_a_change_that_may_be_chance_is_called_so(make_run):
    text = words(sentences.result_sentence(read_run(make_run(after=0.53, steps=2))))
    assert "it may be chance" in text
    assert "lowered" in sentences.result_sentence(read_run(make_run("worse", after=0.40, steps=2)))


def test_the_tables_hold_the_results(make_run):
    runs = [read_run(make_run("a", after=0.70, steps=2)), read_run(make_run("b", after=0.72, steps=2))]
    accuracy = tables.accuracy_comparison(runs, ["a", "b"])
    assert [words(cell) for cell in accuracy.rows[1]] == [
        "b",
        "51.2 %",
        "72.0 %",
        "68.5 to 75.5 %",
        "+2.0 (-2.9 to +6.9)",
    ]
    other = tables.other_measures(runs, ["a", "b"])
    assert words(dict(zip(other.header, other.rows[0], strict=True))["win rate"]) == "61.0 %"
    assert tables.recipe_differences(runs, ["a", "b"]).rows == ()


def test_start_measures_stand_before_the_later_ones(make_run):
    run = read_run(make_run(steps=2, evals={"measures": {"skill_kept": 0.9, "start_skill": 1.0}}))
    assert [words(cell) for cell in tables.result_table(run).rows[-1]] == [
        "skill kept", "100.0 %", "90.0 %", "\u2013", "-10.0 points",
    ]  # fmt: skip


# ---- figures ----


@pytest.mark.parametrize(
    ("draw", "name"),
    [
        (figures.loss, "loss"),
        (figures.gap, "gap_mean"),
        (figures.weight, "weight_mean"),
        (figures.drift, "drift"),
        (figures.gradient_norm, "grad_norm"),
        (figures.speed, "tokens_per_second"),
    ],
)
def test_a_curve_is_its_column(make_run, draw, name):
    steps = read_run(make_run()).steps
    line = draw(steps).axes[0].lines[0]
    np.testing.assert_array_equal(line.get_xdata(), steps["step"])
    np.testing.assert_array_equal(line.get_ydata(), steps[name])


def test_both_scales_and_both_sides_are_drawn(make_run):
    steps = read_run(make_run(steps=10)).steps
    margin, accuracy = figures.margin_and_accuracy(steps).axes
    np.testing.assert_array_equal(margin.lines[0].get_ydata(), steps["margin"])
    np.testing.assert_array_equal(accuracy.lines[0].get_ydata(), steps["accuracy"])
    drawn = {line.get_label(): line.get_ydata() for line in figures.log_probs(steps).axes[0].lines}
    np.testing.assert_array_equal(drawn["chosen"], steps["chosen_logp"])
    np.testing.assert_array_equal(drawn["rejected"], steps["rejected_logp"])
    ratios = [line.get_ydata() for line in figures.self_check(steps).axes[0].lines]
    np.testing.assert_array_equal(ratios[-1], steps["self_check_ratio"])


def test_a_quantity_measured_now_and_then_is_still_a_line():
    steps = {"step": np.arange(1.0, 6.0), "drift": np.array([0.0, np.nan, 0.2, np.nan, 0.3])}
    assert figures.drift(steps).axes[0].lines[0].get_xdata().tolist() == [1, 3, 5]
    assert figures.overlay([steps], "drift", "drift").axes[0].lines[0].get_ydata().tolist() == [0, 0.2, 0.3]


def test_bars_are_the_tiers_and_the_line_is_all_pairs():
    bands = tiers(late_pairs(pair_table()))
    axes = figures.flip_rate_by_tier(bands).axes[0]
    assert [bar.get_height() for bar in axes.containers[0]] == [tier.rate for tier in bands]
    [line] = [line for line in axes.lines if line.get_label() == "all pairs"]
    assert line.get_ydata()[0] == 3 / 8


def test_clean_and_flipped_lines_are_the_table():
    weights = weights_over_training(pair_table(), bins=4)
    drawn = {line.get_label(): line.get_ydata() for line in figures.clean_and_flipped(weights).axes[0].lines}
    np.testing.assert_array_equal(drawn["flipped"], weights["flipped_mean"])
    np.testing.assert_array_equal(drawn["clean"], weights["clean_mean"])


def test_every_pair_is_in_the_length_figure():
    rng = np.random.default_rng(0)
    term, weight = rng.uniform(0.01, 0.3, 1000), rng.normal(size=1000)
    few = figures.weight_against_length(term[:50], weight[:50]).axes[0].collections[0]
    np.testing.assert_array_equal(few.get_offsets(), np.column_stack([term[:50], weight[:50]]))
    many = figures.weight_against_length(term, weight).axes[0].collections[0]
    assert many.get_array().sum() == 1000


def test_accuracies_are_points_on_their_intervals():
    axes = figures.accuracies(["a", "b$x$"], [0.7, 0.8], [Interval(0.6, 0.8), None]).axes[0]
    assert [list(line.get_xdata()) for line in axes.lines] == [[0.6, 0.8], [0.7], [0.8]]


def test_numbers_read_like_numbers():
    assert [words(duration(value)) for value in (12.34, 110, 312.4, 7300)] == ["12.3 s", "110 s", "5 min", "2 h 2 min"]
    assert words(percent(0.7461)) == "74.6 %"
    assert [words(signed(value)) for value in (1.0, -1.0, -0.01)] == ["+1.0", "-1.0", "0.0"]


def test_pairs_may_lack_columns(make_run):
    folder = make_run(steps=4)
    table = pq.read_table(folder / "pairs.parquet").select(["step", "pair_id", "weight"])
    pq.write_table(table, folder / "pairs.parquet")
    pairs = late_pairs(read_run(folder).pairs)
    assert "is not known" in sentences.weight_sentence(pairs)
    assert len(length_terms(pairs)[0]) == 0
