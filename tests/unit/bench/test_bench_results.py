"""From raw lines to summary, targets, table and files, on invented numbers."""

import json

import pytest

from gapo.anchor.settings import ENGINE_NAMES
from gapo.bench.growth import AXES, LAB, MODEL, Point, curves, points, random_pairs
from gapo.bench.memory import parsed, peak_bytes
from gapo.bench.records import Lines
from gapo.bench.run import Results, _told
from gapo.bench.setting import Setting
from gapo.bench.summary import growth_facts, summarised
from gapo.bench.tables import shown_label
from gapo.bench.targets import TARGETS, outcomes
from gapo.bench.variants import NO_TRL, all_variants, auto_first, chosen_variants
from gapo.errors import InputError

FACTS = {"pairs": 4, "tokens": 100, "useful_gflop": 8.0}
LABELS = {"trl-simpo": "TRL SimPO", "simpo": "gapo SimPO", "gapo-auto": "GAPO, auto"}


def raw(**seconds):
    return [
        {"variant": name.replace("_", "-"), "repetition": at, "seconds": value, "peak_gflops": 10.0}
        for name, values in seconds.items()
        for at, value in enumerate(values)
    ]


def test_a_row_is_made_from_its_lines():
    found = summarised(FACTS, LABELS, {}, raw(trl_simpo=[4.0, 8.0], simpo=[2.0, 2.0]), [])
    ours = next(row for row in found["variants"] if row["name"] == "simpo")
    assert ours["seconds_per_pair"] == {"value": 0.5, "low": 0.5, "high": 0.5}
    assert ours["tokens_per_second"]["value"] == 50
    assert ours["share_of_peak"]["value"] == pytest.approx(8 / 2 / 10)
    assert ours["against_trl_simpo"] == {"value": pytest.approx(1 / 3, rel=1e-5), "low": 0.25, "high": 0.5}
    assert ours["peak_bytes"] is None
    assert found["repetitions"] == 2
    assert [row["name"] for row in found["variants"]] == ["trl-simpo", "simpo"]


def test_a_miss_is_called_a_miss_and_what_was_not_measured_is_said():
    memory = [{"variant": "gapo-auto", "peak_bytes": 3}, {"variant": "trl-simpo", "peak_bytes": 2}]
    found = summarised(FACTS, LABELS, {}, raw(trl_simpo=[4.0], simpo=[1.0], gapo_auto=[3.9]), memory)
    verdicts = {(row["kind"], row["top"], row["bottom"]): row["verdict"] for row in found["targets"]}
    assert verdicts["time", "simpo", "trl-simpo"] == "pass"
    assert verdicts["time", "gapo-auto", "trl-simpo"] == "miss"
    assert verdicts["memory", "gapo-auto", "trl-simpo"] == "miss"
    assert verdicts["share", "simpo", None] == "pass"
    assert verdicts["time", "gapo-bank", "simpo"] == "not measured"
    assert len(verdicts) == len(TARGETS) == 10


def test_without_measurements_no_target_has_a_verdict():
    assert {outcome.verdict for outcome in outcomes({}, {}, {})} == {"not measured"}


def test_lines_survive_a_kill(tmp_path):
    lines = Lines(tmp_path / "sub" / "raw.jsonl").begin()
    lines.add(variant="simpo", seconds=1 / 3)
    with open(lines.path, "a") as file:
        file.write('{"variant": "sim')
    assert lines.read() == [{"variant": "simpo", "seconds": 0.3333333}]
    assert Lines(tmp_path / "nowhere.jsonl").read() == []


def test_the_report_on_memory_is_the_last_line():
    said = 'a library speaks\n{"peak_bytes": 7, "start_bytes": 3}\n'
    assert parsed(said) == {"peak_bytes": 7, "start_bytes": 3}
    for wrong in ("", "nothing\n", '{"peak": 1}', "[1]", '{"peak_bytes": null, "start_bytes": 1}'):
        with pytest.raises(InputError, match="no report"):
            parsed(wrong)
    assert peak_bytes() > 2**20


def test_growth_is_fitted_along_each_axis():
    lines = [
        {"axis": axis, "x": x, "variant": "simpo", "parameters": 5, "repetition": r, "seconds_per_pair": 0.1 * x**1.5}
        for axis in AXES
        for x in (1, 2, 4)
        for r in (0, 1)
    ]
    found = curves(lines)
    assert [curve.axis for curve in found] == list(AXES)
    assert all(curve.growth.exponent == pytest.approx(1.5) for curve in found)
    assert json.loads(json.dumps(growth_facts(lines[:4])))[0]["standard_error"] is None  # two points


def test_growth_points_are_what_they_say():
    assert {point.axis for point in points()} == set(AXES)
    point = Point(MODEL, LAB, prompt=5, response=7, pairs=2, micro_batch=2)
    drawn = random_pairs(point).encoded
    assert [(len(p.prompt), len(p.chosen), len(p.rejected)) for p in drawn] == [(5, 7, 7)] * 2
    assert max(max(p.prompt) for p in drawn) < LAB.vocabulary
    for point in points() + points(quick=True):
        Setting("random", None, point.pairs, point.micro_batch)  # evenly cut


def test_parts_of_a_summary_can_come_one_by_one(tmp_path):
    results = Results(tmp_path)
    lines = results.lines("growth").begin()
    for x in (1, 2, 3):
        for variant in ("simpo", "gapo-auto"):
            lines.add(axis=AXES[0], x=x, variant=variant, parameters=9, repetition=0, seconds_per_pair=0.1 * x)
    results.write(growth=growth_facts(lines.read()))
    assert "exponent" in (tmp_path / "table.md").read_text()
    drawing = (tmp_path / "growth.svg").read_text()
    assert drawing.startswith("<svg")
    assert "exponent 1.00" in drawing
    assert not (tmp_path / "figure.svg").exists()
    assert "growth" in results.summary()


def test_a_summary_of_another_version_is_begun_anew(tmp_path):
    (tmp_path / "summary.json").write_text('{"format": 0, "growth": [{"unknown": 1}]}')
    Results(tmp_path).write(repetitions=0)
    assert set(Results(tmp_path).summary()) == {"format", "repetitions"}


def test_every_engine_has_a_variant():
    assert {f"gapo-{engine}" for engine in ENGINE_NAMES} <= set(all_variants())
    assert [name for name, variant in all_variants().items() if not variant.ours] == ["trl-simpo", "trl-dpo"]


def test_without_trl_its_variants_are_left_out_with_a_sentence(monkeypatch):
    monkeypatch.setattr("gapo.bench.variants.find_spec", lambda name: None)
    said = []
    assert all(variant.ours for variant in chosen_variants(None, said.append))
    assert said == [NO_TRL]
    with pytest.raises(InputError, match="nothing is left"):
        chosen_variants(["trl-simpo"], said.append)


@pytest.mark.parametrize(
    ("label", "engine", "shown"),
    [
        ("GAPO, bank", "bank (bf16)", "GAPO, bank (bf16)"),
        ("GAPO, auto", "bank (bf16)", "GAPO, auto: bank (bf16)"),
        ("GAPO, auto", "two_pass", "GAPO, auto: two_pass"),
        ("gapo SimPO", None, "gapo SimPO"),
    ],
)
def test_a_label_says_the_engine_once(label, engine, shown):
    assert shown_label({"label": label, "engine": engine}) == shown


def test_memory_measured_apart_keeps_what_timing_told(tmp_path):
    results = Results(tmp_path)
    told = {"engine": "bank (bf16)", "same_as": "gapo-bank"}
    (tmp_path / "summary.json").write_text(
        json.dumps({"format": 1, "variants": [{"name": "gapo-auto", "x": 1, **told}]})
    )
    assert _told(results) == {"gapo-auto": told}


def test_auto_finds_the_memory_a_user_finds():
    names = [variant.name for variant in auto_first(list(all_variants().values()))]
    assert names[0] == "gapo-auto"
    assert sorted(names) == sorted(all_variants())
