"""Differences on the same pairs: their interval, who is right where, and what is said when nothing was kept."""

from __future__ import annotations

import json
from math import sqrt

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapo.report import read_run, write_report
from gapo.report.markup import tag
from gapo.report.paired import beside, change_in, outcomes_of, paired_change

HOSTILE = "<img src=x onerror=alert(1)>"
Z = 1.959963984540054


@pytest.fixture(autouse=True)
def quick(monkeypatch) -> None:
    monkeypatch.setattr("gapo.report.elements.inline_svg", lambda drawn, *, key, label: tag("svg", id=key))


def keep_outcomes(folder, after, before=None, ids=None, subsets=None, prompts=None) -> None:
    """held_out.parquet of these gains, and evals.json with their accuracy."""
    after = np.asarray(after, dtype=float)
    count = len(after)
    columns = {
        "pair_id": ids or [f"pair{i}" for i in range(count)],
        "prompt_id": prompts or [f"prompt{i}" for i in range(count)],
        "subset": pa.array(subsets or [None] * count, pa.string()),
        "gain_before": pa.array(before if before is not None else [None] * count, pa.float64()),
        "gain_after": after,
        "chosen_tokens": [3] * count,
        "rejected_tokens": [4] * count,
    }
    pq.write_table(pa.table(columns), folder / "held_out.parquet")
    evals = json.loads((folder / "evals.json").read_text())
    rate = float(np.mean((after > 0) + 0.5 * (after == 0)))
    evals |= {"pairs": count, "after": {"accuracy": rate}}
    if before is not None:
        before = np.asarray(before, dtype=float)
        evals["before"] = {"accuracy": float(np.mean((before > 0) + 0.5 * (before == 0)))}
    (folder / "evals.json").write_text(json.dumps(evals))


def newcombe_10(both: int, first: int, second: int, neither: int) -> tuple[float, float]:
    """Method 10 of Newcombe 1998 from the four counts, written from the paper's formulas."""
    n = both + first + second + neither

    def wilson(successes: int) -> tuple[float, float]:
        p = successes / n
        root = Z * sqrt(Z**2 + 4 * n * p * (1 - p))
        return (2 * n * p + Z**2 - root) / (2 * (n + Z**2)), (2 * n * p + Z**2 + root) / (2 * (n + Z**2))

    p1, p2 = (both + first) / n, (both + second) / n
    (l1, u1), (l2, u2) = wilson(both + first), wilson(both + second)
    product = (both + first) * (second + neither) * (both + second) * (first + neither)
    top = both * neither - first * second
    top = max(top - n / 2, 0) if top > 0 else top
    phi = top / sqrt(product) if product else 0.0
    low = p1 - p2 - sqrt((p1 - l1) ** 2 - 2 * phi * (p1 - l1) * (u2 - p2) + (u2 - p2) ** 2)
    high = p1 - p2 + sqrt((u1 - p1) ** 2 - 2 * phi * (u1 - p1) * (p2 - l2) + (p2 - l2) ** 2)
    return low, high


@pytest.mark.parametrize("counts", [(36, 12, 2, 10), (50, 0, 0, 5), (3, 20, 1, 2), (0, 5, 5, 0), (555, 44, 57, 144)])
def test_the_interval_is_newcombes_for_the_four_counts(counts):
    both, first, second, neither = counts
    ours = np.repeat([1.0, 1.0, 0.0, 0.0], counts)
    base = np.repeat([1.0, 0.0, 1.0, 0.0], counts)
    found = paired_change(ours, base, np.arange(sum(counts)))
    assert found.value == pytest.approx((first - second) / sum(counts))
    assert found.interval == pytest.approx(newcombe_10(both, first, second, neither), abs=1e-12)


@pytest.mark.parametrize("per_prompt", [1, 4])
def test_the_interval_holds_the_true_difference_as_often_as_it_says(per_prompt):
    """Two runs that agree on most pairs, pairs of one prompt alike: 95 of 100, and not much more."""
    rng, prompts, trials, held = np.random.default_rng(0), 120, 600, 0
    for _ in range(trials):
        prompt = np.repeat(rng.normal(size=prompts), per_prompt)
        shared = prompt + 0.7 * rng.normal(size=prompts * per_prompt)
        special = np.repeat(rng.normal(size=prompts), per_prompt)  # where the two differ, also alike in a prompt
        ours, base = shared + 0.5 * special > 0, shared - 0.5 * special > 0  # equally good
        clusters = np.repeat(np.arange(prompts), per_prompt)
        held += paired_change(ours.astype(float), base.astype(float), clusters).interval.holds(0.0)
    assert 0.93 <= held / trials <= 0.985


def test_runs_are_joined_by_pair_whatever_their_order(make_run):
    one, other = make_run("one"), make_run("other")
    keep_outcomes(one, [1, 1, -1, 0, 1], ids=list("abcde"))
    keep_outcomes(other, [1, -1, 1, 1], ids=list("cbxa"))
    both = beside(outcomes_of(read_run(other)), outcomes_of(read_run(one)))
    assert both.ours.ids.tolist() == ["c", "b", "a"]
    assert (both.only_ours.sum(), both.only_base.sum()) == (1, 1)
    assert both.change.value == pytest.approx(0.0)


def test_a_record_that_does_not_fit_the_result_is_not_used(make_run):
    folder = make_run()
    keep_outcomes(folder, [1, 1, -1, 1])
    assert outcomes_of(read_run(folder)) is not None
    evals = json.loads((folder / "evals.json").read_text())
    (folder / "evals.json").write_text(json.dumps({**evals, "after": {"accuracy": 0.5}}))
    assert outcomes_of(read_run(folder)) is None


def test_the_change_of_a_run_is_paired_where_both_ends_are_known(make_run):
    rng = np.random.default_rng(1)
    before = rng.normal(size=300)
    folder = make_run()
    keep_outcomes(folder, before + 0.3, before)
    paired = change_in(read_run(folder))
    (folder / "held_out.parquet").unlink()
    plain = change_in(read_run(folder))
    assert paired.value == pytest.approx(plain.value)
    assert paired.interval.high - paired.interval.low < 0.8 * (plain.interval.high - plain.interval.low)


def test_a_comparison_says_whether_it_is_paired(make_run):
    rng = np.random.default_rng(2)
    gains = rng.normal(size=200)
    one, other = make_run("one", after=0.5), make_run("other", after=0.5)
    keep_outcomes(one, gains)
    keep_outcomes(other, gains + 0.4 * rng.normal(size=200), subsets=["easy", "hard"] * 100)
    page = write_report([one, other]).read_text()
    assert "Differences are paired" in page
    assert "Held-out pairs, right or wrong" in page
    assert "Reward accuracy by subset" in page
    (other / "held_out.parquet").unlink()
    page = write_report([one, other]).read_text()
    assert "other has no record of how each held-out pair came out" in page
    assert "The same pairs" not in page


def test_weights_of_the_same_pairs_are_correlated(make_run):
    same = [make_run("a"), make_run("b")]  # the same seed: the same pairs and weights
    page = write_report(same).read_text()
    assert "Weights of the same training pairs" in page
    assert "<td>480</td><td>1.00</td>" in page


def test_recipes_do_not_differ_by_where_they_were_written(make_run):
    folders = [make_run("a"), make_run("b")]
    for folder in folders:
        with open(folder / "recipe.yaml", "a") as file:
            file.write(f"more:\n  x: 1\ntrain:\n  output_dir: {folder}\n")
    assert "The recipes are the same" in write_report(folders).read_text()


def test_hostile_names_and_subsets_stay_text(make_run):
    folders = [make_run("<b>a"), make_run("b<i>")]
    for folder in folders:
        keep_outcomes(folder, [1, -1, 1, 1], ids=[HOSTILE, "b", "c", "d"], subsets=[HOSTILE] * 4)
    page = write_report(folders).read_text()
    assert "<img" not in page
    assert "<b>a" not in page
    assert "&lt;img src=x" in page


def test_compare_wants_two_runs(make_run):
    import typer
    from typer.testing import CliRunner

    from gapo.cli.compare import compare
    from gapo.errors import InputError

    app = typer.Typer()
    app.command()(compare)
    folders = [str(make_run("a", steps=3)), str(make_run("b", steps=3))]
    ran = CliRunner().invoke(app, [folders[0], folders[0]])
    assert isinstance(ran.exception, InputError)
    ran = CliRunner().invoke(app, folders)
    assert ran.exit_code == 0
    assert "report.html" in ran.output
