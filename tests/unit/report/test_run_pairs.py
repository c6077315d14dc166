"""What the explorer is given of a run: every pair once, as last seen, with its text where the run kept it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gapo.report import read_run, write_report
from gapo.report.markup import tag
from gapo.report.run_pairs import run_pairs

HOSTILE = "</script><script>alert(1)</script>\u202e"


def seen_twice(folder, *, geometry: bool = True) -> None:
    """Three pairs, two of them seen at steps 1 and 2; pair c only at step 1."""
    rows = {
        "step": [2, 1, 1, 2, 1],
        "epoch": [2.0, 1.0, 1.0, 2.0, 1.0],
        "pair_id": ["a", "a", "b", "b", "c"],
        "margin": [0.5, 0.1, 0.2, 0.3, None],
        "gap": [0.2, 0.1, 0.3, 0.4, 0.5],
        "weight": [1.0, 1.25, 1.5, 0.75, 2.0],
        "loss": [0.1, 0.2, 0.3, 0.4, 0.5],
        "chosen_tokens": [10, 10, 4, 4, 2],
        "rejected_tokens": [5, 5, 4, 4, 2],
        "flipped": [False, False, True, True, None],
    }
    if geometry:
        rows |= {"gap_self": [0.3, 0.1, 0.2, 0.2, 0.1], "gap_others": [-0.05, 0.1, 0.2, 0.3, -0.4]}
    pq.write_table(pa.table(rows), folder / "pairs.parquet")


def keep_texts(folder, rows) -> None:
    columns = ("pair_id", "prompt", "chosen", "rejected", "subset", "held_out")
    pq.write_table(
        pa.table(dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True))), folder / "texts.parquet"
    )


def values(view, key):
    return dict(zip(view.ids, view.column(key).values, strict=True))


def test_each_pair_is_there_once_with_its_last_values(make_run):
    folder = make_run()
    seen_twice(folder)
    view = run_pairs(read_run(folder))
    assert list(view.ids) == ["a", "b", "c"]
    assert values(view, "weight") == {"a": 1.0, "b": 0.75, "c": 2.0}
    assert values(view, "step") == {"a": 2, "b": 2, "c": 1}
    assert values(view, "margin")["c"] is None
    assert values(view, "flipped") == {"a": False, "b": True, "c": None}
    assert values(view, "curvature")["a"] == pytest.approx(0.3 - 0.05 - 0.2)
    assert values(view, "length_term")["a"] == pytest.approx(1 / 10 + 1 / 5)
    assert values(view, "self_share") == {"a": 1.2, "b": 0.4, "c": None}  # c: no gap above 0, so no shares
    assert [list(each.steps) for each in view.history] == [[1, 2], [1, 2], [1]]
    assert view.history[1].series["weight"] == [1.5, 0.75]
    assert (view.beta, view.gamma) == (2.5, 0.1)
    assert not view.texts
    assert "not kept" in " ".join(view.notes)


def test_columns_that_the_run_does_not_know_are_left_out(make_run):
    folder = make_run(objective="simpo", anchor=False)
    seen_twice(folder, geometry=False)
    view = run_pairs(read_run(folder))
    assert view.column("gap_self") is view.column("self_share") is view.column("curvature") is None
    assert view.beta is None


def test_pairs_seen_once_have_no_history(make_run):
    assert run_pairs(read_run(make_run())).history == []


def test_texts_are_those_of_training_and_held_out_ones_stay_out(make_run):
    folder = make_run()
    seen_twice(folder)
    keep_texts(
        folder,
        [("a", "p", "good", "bad", "easy", False), ("b", "q", "x", "y", None, True), ("z", "", "", "", None, False)],
    )
    view = run_pairs(read_run(folder))
    assert [text and text.chosen for text in view.texts] == ["good", None, None]
    assert values(view, "subset") == {"a": "easy", "b": None, "c": None}
    assert "wrong way round" in " ".join(view.notes)


def test_of_too_many_pairs_those_with_texts_are_shown_and_the_rest_is_told(make_run, monkeypatch):
    import gapo.report.run_pairs as module

    monkeypatch.setattr(module, "PAIRS_SHOWN", 1)
    folder = make_run()
    seen_twice(folder)
    view = run_pairs(read_run(folder))
    assert "1 pair of 3 are shown: a random sample." in view.notes
    keep_texts(folder, [("b", "q", "x", "y", None, False)])
    assert list(run_pairs(read_run(folder)).ids) == ["b"]


def test_texts_that_do_not_fit_are_those_of_middling_weight(monkeypatch):
    import gapo.report.run_pairs as module

    monkeypatch.setattr(module, "TEXT_BUDGET", 6)
    rows = [("p", "c", "r", "")] * 5
    kept, cut = module.within_budget(rows, np.array([3.0, 1.0, 2.0, 5.0, 4.0]))
    assert [row is not None for row in kept] == [False, True, False, True, False]
    assert cut == 3


def test_numbers_keep_five_digits():
    from gapo.report.run_pairs import rounded

    found = rounded(np.array([1.23456789, -0.000123456789, 123456.789, 0.0, np.nan, np.inf]))
    assert found == [1.2346, -0.00012346, 123460.0, 0.0, None, None]


def test_the_knobs_that_a_recipe_leaves_out_are_the_objectives():
    from gapo.objectives import get_objective
    from gapo.report.run_pairs import KNOBS

    assert dict(get_objective("gapo").knobs) == KNOBS


def test_hostile_texts_ids_and_subsets_stay_text(make_run, monkeypatch):
    monkeypatch.setattr("gapo.report.elements.inline_svg", lambda drawn, *, key, label: tag("svg", id=key))
    folder = make_run()
    seen_twice(folder)
    table = pq.read_table(folder / "pairs.parquet")
    ids = [HOSTILE if name == "a" else name for name in table["pair_id"].to_pylist()]
    pq.write_table(
        table.set_column(table.column_names.index("pair_id"), "pair_id", pa.array(ids)), folder / "pairs.parquet"
    )
    keep_texts(folder, [(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, False)])
    page = write_report(folder).read_text(encoding="utf-8")
    assert "alert(1)</script>" not in page
    assert "\u202e" not in page


def test_a_texts_file_that_is_cut_short_costs_the_texts_only(make_run):
    folder = make_run()
    (folder / "texts.parquet").write_bytes(b"PAR1 cut")
    assert run_pairs(read_run(folder)).texts == ()


def test_self_share_is_on_the_page_and_its_absence_is_explained(make_run, monkeypatch):
    monkeypatch.setattr("gapo.report.elements.inline_svg", lambda drawn, *, key, label: tag("svg", id=key))
    folder = make_run()
    assert "anchor.engine=bank records them" in write_report(folder).read_text()
    seen_twice(folder)
    assert "a pair&#x27;s own share of the direction made" in write_report(folder).read_text()
    simpo = write_report(make_run("simpo", objective="simpo", anchor=False)).read_text()
    assert "Self share" not in simpo


def test_pooled_self_share_is_own_parts_over_gaps():
    from gapo.report.self_shares import shares_over_training

    table = pa.table({"step": [1, 1, 2, 3], "gap_self": [1.0, 2.0, 1.0, None], "gap_others": [1.0, 0.0, -0.5, 1.0]})
    found = shares_over_training(table)
    assert found["step"].tolist() == [1, 2]
    assert found["pooled"].tolist() == [0.75, 2.0]


def test_replies_mark_what_changed():
    from gapo.report.markup import join
    from gapo.report.replies_section import changes

    before, after = changes("a red <b> fox sat", "a red dog now sat")
    assert join(before) == "a red <del>&lt;b&gt; fox</del> sat"
    assert join(after) == "a red <ins>dog now</ins> sat"
    assert changes("same", "same") == (["same"], ["same"])
    assert changes("all of this", "nothing alike here?!") == (["all of this"], ["nothing alike here?!"])


def test_a_page_says_that_a_run_can_be_made_again_from_its_folder(make_run, monkeypatch):
    monkeypatch.setattr("gapo.report.elements.inline_svg", lambda drawn, *, key, label: tag("svg", id=key))
    page = write_report(make_run("my run")).read_text()
    assert "gapo train &#x27;my run/recipe.yaml&#x27; &#x27;train.output_dir=my run-again&#x27;" in page
