"""`data.select`: what it says, what identifies it, what it keeps, in memory and on disk."""

from __future__ import annotations

import json
import re

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from gapo.cli.main import app
from gapo.diagnostics.tables import column, first_seen, read_table, write_probe
from gapo.errors import InputError
from gapo.pairs import files
from gapo.pairs.formats import load_pairs
from gapo.pairs.noise import flip
from gapo.pairs.stored_text import StoredPairs
from gapo.runs.data import load_data
from gapo.runs.dry_run import dry_runs
from gapo.runs.recipe import differences, read_recipe, recipe_hash
from runs_of_tests import text_rows

HASH = "5f0c2b7a9e1d4c38"


def recipe(*overrides, **select):
    section = {"from": HASH, "share": 0.5, **select}
    return read_recipe("mini", [f"data.select={json.dumps(section)}", *overrides])


@pytest.fixture
def rows(tmp_path, monkeypatch):
    monkeypatch.setenv("GAPO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(files, "SMALL_FILE", 0)
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in text_rows(20)))
    return path


@pytest.fixture
def scores(rows, tmp_path):
    """A probe of all pairs in a folder that is called by its hash."""
    ids = list(load_pairs(rows).ids)
    table = pa.table({"pair_id": ids, "gap": np.random.default_rng(0).normal(size=20), "margin": np.arange(20.0)})
    write_probe(table, tmp_path / "runs" / HASH)
    return dict(zip(ids, column(table, "gap"), strict=True))


def trained_on(rows, tmp_path, *more, **select):
    overrides = [f"data.train={rows}", f"train.output_dir={tmp_path / 'runs' / 'mine'}", *more]
    return load_data(recipe(*overrides, **select))[0]


@pytest.mark.parametrize(
    ("select", "words"),
    [
        ("data.select=0.3", "data.select must say which pairs"),
        ("data.select={from: x}", "data.select.share must be a number above 0 and at most 1, not None"),
        ("data.select={from: x, share: 0}", "data.select.share must be"),
        ("data.select={from: x, share: true}", "data.select.share must be"),
        ("data.select={share: 0.3}", "data.select.from must be the hash or folder of a run, or a file of scores"),
        ("data.select={from: x, share: 0.3, keep: low}", "unknown data.select.keep 'low'; did you mean 'lowest'?"),
        ("data.select={from: x, share: 0.3, seed: -1}", "data.select.seed must be a whole number"),
        ("data.select={from: x, share: 0.3, score: 3}", "data.select.score must be the name of a column"),
        ("data.select={from: x, shares: 0.3}", "unknown key 'data.select.shares'; did you mean 'share'?"),
    ],
)
def test_wrong_values_are_named_before_anything_is_loaded(select, words):
    with pytest.raises(InputError, match=re.escape(words)):
        read_recipe("mini", [select])


def test_overrides_reach_single_keys_and_a_hash_of_digits_stays_text():
    found = read_recipe("mini", ["data.select.from=1234567890123456", "data.select.share=0.3"])["data"]["select"]
    assert found == {"from": "1234567890123456", "score": "gap", "keep": "lowest", "share": 0.3, "seed": 0}


def test_the_selection_identifies_the_run_and_its_place_does_not():
    hashes = {recipe_hash(recipe(**{"from": name})) for name in (HASH, f"runs/{HASH}", f"elsewhere/{HASH}")}
    assert len(hashes) == 1
    others = [recipe(share=0.3), recipe(keep="random"), recipe(**{"from": "0" * 16}), recipe(**{"from": "a.csv"})]
    assert len(hashes | {recipe_hash(other) for other in others}) == 5
    assert recipe_hash(read_recipe("mini", ["data.select=null"])) == recipe_hash(read_recipe("mini"))
    assert differences(recipe(), recipe(share=0.3)) == ["data.select"]


def test_other_training_pairs_do_not_keep_the_recipes_selection(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(f"data:\n  train: lab\n  select: {{from: {HASH}, share: 0.3}}\n")
    assert "select" in read_recipe(str(path))["data"]
    assert "select" not in read_recipe(str(path), ["data.train=courtesy"])["data"]


@pytest.mark.parametrize("cache", ["false", "true"])
@pytest.mark.parametrize(("keep", "share"), [("lowest", 0.3), ("highest", 0.7), ("random", 0.5)])
def test_the_share_asked_for_is_kept_with_its_noise(rows, scores, tmp_path, cache, keep, share):
    more = [f"data.cache_tokens={cache}", "noise.rate=0.25", "noise.seed=4"]
    kept = trained_on(rows, tmp_path, *more, keep=keep, share=share)
    assert isinstance(kept.pairs, StoredPairs) == (cache == "true")
    noisy, _ = flip(load_pairs(rows), 0.25, seed=4)
    count = round(share * 20)
    assert len(kept) == count
    assert set(kept) <= set(noisy)
    if keep != "random":
        ordered = sorted(scores, key=scores.get, reverse=keep == "highest")
        assert set(kept.ids) == set(ordered[:count])
    assert kept.ids == tuple(name for name in noisy.ids if name in set(kept.ids))
    assert trained_on(rows, tmp_path, *more, keep=keep, share=share) == kept


def test_another_column_and_another_seed(rows, scores, tmp_path):
    assert trained_on(rows, tmp_path, score="margin").ids == load_pairs(rows).ids[:10]
    assert trained_on(rows, tmp_path, keep="random") != trained_on(rows, tmp_path, keep="random", seed=1)


def test_pairs_without_a_score_are_left_out_with_a_word(rows, scores, tmp_path, caplog):
    lines = [f"{name},{value}\n" for name, value in list(scores.items())[:8]]
    (tmp_path / "some.csv").write_text("pair_id,gap\n" + "".join(lines) + f"{list(scores)[9]},nan\n")
    kept = trained_on(rows, tmp_path, **{"from": str(tmp_path / "some.csv")})
    assert len(kept) == 4
    assert "12 of 20 pairs have no gap in" in caplog.text
    assert set(trained_on(rows, tmp_path, keep="random", **{"from": str(tmp_path / "some.csv")}).ids) <= set(
        list(scores)[:8]
    )


@pytest.mark.parametrize(
    ("select", "words"),
    [
        ({"from": "0" * 16}, "no run with the hash 0000000000000000 was found beside"),
        ({"from": "nowhere/x.csv"}, "data.select.from: nowhere/x.csv does not exist"),
        ({"score": "gapp"}, "has no column 'gapp'; did you mean 'gap'?"),
    ],
)
def test_what_cannot_be_found_is_said_plainly(rows, scores, tmp_path, select, words):
    with pytest.raises(InputError, match=re.escape(words)):
        trained_on(rows, tmp_path, **select)


def test_scores_of_other_pairs_are_refused(rows, scores, tmp_path):
    with pytest.raises(InputError, match="has scores of 20 pairs, but of none of these"):
        load_data(recipe(f"train.output_dir={tmp_path / 'runs' / 'mine'}", "data.limit=10"))


def test_a_dry_run_counts_what_is_kept():
    whole, half = (dry_runs(one)[0] for one in (read_recipe("mini"), recipe(share=0.25)))
    assert (whole.train.pairs, half.train.pairs) == (3200, 800)


def test_a_run_without_learning_scores_the_start_model_and_another_trains_on_its_choice(tmp_path):
    """The whole way, by commands: the scoring run is named by its hash alone."""
    common = ["data.limit=48", "data.eval=lab:test", "data.eval_limit=20", "noise.rate=0.2", "train.use_cpu=true"]
    common += ["train.per_device_train_batch_size=8"]

    def run(name, *more):
        arguments = [*common, f"train.output_dir={tmp_path / name}", *more]
        done = CliRunner().invoke(app, ["train", "mini", "data.train=lab", *arguments])
        assert done.exit_code == 0, done.output
        return tmp_path / name

    scoring = run("scoring", "objective.name=gapo", "train.learning_rate=0", "anchor.engine=bank")
    name = json.loads((scoring / "environment.json").read_text())["recipe"]
    select = ["data.select.share=0.5", f"data.select.from={name}"]
    chosen = run("low", "objective.name=simpo", "train.num_train_epochs=2", *select)
    scores = first_seen(read_table(scoring))
    assert scores.num_rows == 48
    gaps = dict(zip(scores["pair_id"].to_pylist(), column(scores, "gap"), strict=True))
    assert set(read_table(chosen)["pair_id"].to_pylist()) == set(sorted(gaps, key=gaps.get)[:24])
