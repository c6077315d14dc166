"""Audits against a loop over compositions, pairs, tokens and weights, in float64."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import expit

import literal
import tiny
from gapo.diagnostics.audit_summary import compositions_of, summary
from gapo.diagnostics.auditing import AuditSettings, BlockScorer
from gapo.diagnostics.compositions import composition
from gapo.diagnostics.tables import column
from gapo.errors import InputError

SETTINGS = AuditSettings(compositions=3, batch_pairs=4, seed=7, exact=True, block_pairs=7, bank="float32")


@pytest.fixture(scope="module")
def model():
    return tiny.llama()


@pytest.fixture(scope="module")
def pairs():
    return [replace(pair, flipped=i % 3 == 0) for i, pair in enumerate(tiny.random_pairs(12))]


def scored(model, pairs, settings=SETTINGS):
    import pyarrow as pa

    scorer = BlockScorer(model, pairs, tiny.PAD, settings)
    table = pa.concat_tables([scorer.table(k) for k in range(len(scorer.blocks))])
    return scorer, table.sort_by("row")


@pytest.fixture(scope="module")
def exact(model, pairs):
    return scored(model, pairs)


@pytest.fixture(scope="module")
def truth(model, pairs, exact):
    """For each composition and pair: gap, first-order gap, own term, cosine; by the definition and nothing else."""
    parameters = list(model.parameters())
    gradients = [
        torch.cat([part.flatten() for part in torch.autograd.grad(literal.margin(model, pair), parameters)]).numpy()
        for pair in pairs
    ]
    found = np.full((4, SETTINGS.compositions, len(pairs)), np.nan)
    for number, (rows, _) in enumerate(exact[0].blocks):
        for c in range(SETTINGS.compositions):
            for members, new in composition(len(rows), 4, SETTINGS.seed, number, c):
                batch = [int(rows[m]) for m in members]
                gaps = literal.gaps(model, [pairs[i] for i in batch], SETTINGS.radius)
                g = np.mean([gradients[i] for i in batch], axis=0)
                for place, i in list(enumerate(batch))[-new:]:
                    own = gradients[i]
                    assert np.isnan(found[0, c, i])  # once in every composition
                    found[:, c, i] = (
                        gaps[place].item(),
                        SETTINGS.radius * own @ g / np.linalg.norm(g),
                        SETTINGS.radius * own @ own / (len(batch) * np.linalg.norm(g)),
                        own @ g / np.linalg.norm(own) / np.linalg.norm(g),
                    )
    assert np.isfinite(found).all()
    return gradients, found


def test_means_and_spreads_over_compositions(model, pairs, exact, truth):
    _, table = exact
    gradients, (gap, first, own, cosine) = truth
    weight = 2.5 * expit(0.1 - 2.5 * gap)
    expected = {
        "gap": gap.mean(0),
        "gap_spread": gap.std(0, ddof=1),
        "weight": weight.mean(0),
        "weight_spread": weight.std(0, ddof=1),
        "loss": -np.log(expit(2.5 * gap - 0.1)).mean(0),
        "grad_norm": [np.linalg.norm(each) for each in gradients],
        "alignment": cosine.mean(0),
        "gap_self": own.mean(0),
        "gap_others": (first - own).mean(0),
        "self_share": np.where(first.mean(0) > 0, own.mean(0) / first.mean(0), np.nan),
        "curvature": (first - gap).mean(0),
        "margin": [literal.margin(model, pair).item() for pair in pairs],
        "length_term": [1 / len(pair.chosen) + 1 / len(pair.rejected) for pair in pairs],
        "chosen_tokens": [len(pair.chosen) for pair in pairs],
        "rejected_logp": [literal.sequence_logp(model, pair.prompt, pair.rejected).item() for pair in pairs],
    }
    assert table["pair_id"].to_pylist() == [pair.id for pair in pairs]
    assert table["flipped"].to_pylist() == [pair.flipped for pair in pairs]
    for name, values in expected.items():
        np.testing.assert_allclose(column(table, name), values, rtol=2e-5, atol=1e-9, err_msg=name)
    np.testing.assert_allclose(compositions_of(table), gap, rtol=2e-5, atol=1e-9)


def test_to_first_order_the_first_composition_is_measured(model, pairs, truth):
    _, (gap, first, _, _) = truth
    _, table = scored(model, pairs, replace(SETTINGS, exact=False))
    np.testing.assert_allclose(compositions_of(table), first, rtol=1e-7)
    np.testing.assert_allclose(column(table, "gap_spread"), first.std(0, ddof=1), rtol=1e-6)
    np.testing.assert_allclose(column(table, "curvature"), (first - gap)[0], rtol=1e-4, atol=1e-9)


def test_without_room_for_a_block_the_numbers_are_the_same(model, pairs, exact):
    _, table = scored(model, pairs, replace(SETTINGS, bank="none"))
    for name in ("gap", "gap_spread", "weight", "alignment", "gap_self", "gap_others", "curvature", "margin"):
        np.testing.assert_allclose(column(table, name), column(exact[1], name), rtol=1e-6, atol=1e-10, err_msg=name)
    assert table["chosen_tokens"].to_pylist() == exact[1]["chosen_tokens"].to_pylist()


def test_gradients_in_bf16_are_right_to_their_rounding(model, pairs, exact):
    _, table = scored(model, pairs, replace(SETTINGS, bank="bfloat16"))
    np.testing.assert_allclose(column(table, "gap"), column(exact[1], "gap"), rtol=0.02, atol=1e-3)
    assert not np.array_equal(column(table, "gap"), column(exact[1], "gap"))


def test_a_scope_moves_only_its_weights(model, pairs):
    settings = replace(SETTINGS, scope="lm_head", compositions=1, block_pairs=12, batch_pairs=12)
    _, table = scored(model, pairs, settings)
    head = model.lm_head.weight
    own = torch.autograd.grad(literal.margin(model, pairs[3]), head)[0]
    assert column(table, "grad_norm")[3] == pytest.approx(own.norm().item())
    assert table["gap_spread"].null_count == len(pairs)  # nothing is known from one composition


def test_one_batch_of_all_pairs_has_no_spread(model, pairs):
    settled = AuditSettings(compositions=2, batch_pairs=64).settled(model, 5)
    assert (settled.batch_pairs, settled.block_pairs) == (5, 5)
    _, table = scored(model, pairs[:5], settled)
    assert column(table, "gap_spread") == pytest.approx(np.zeros(5), abs=1e-12)


def test_choices_follow_the_memory(model, monkeypatch):
    one = sum(p.numel() for p in model.parameters()) * 8

    def settled(gradients, **options):
        monkeypatch.setattr("gapo.diagnostics.auditing.available_memory", lambda _: (gradients + 3.01) * one / 0.75)
        found = AuditSettings(batch_pairs=8, **options).settled(model, 1000)
        return found.bank, found.block_pairs

    assert settled(100) == ("float32", 32)
    assert settled(10) == ("bfloat16", 32)  # a quarter of a float64 gradient
    assert settled(5) == ("bfloat16", 20)
    assert settled(2) == ("none", 32)
    assert settled(5, block_pairs=16) == ("bfloat16", 16)
    assert settled(100, bank="bfloat16") == ("bfloat16", 32)


@pytest.mark.parametrize("wrong", [{"compositions": 0}, {"radius": 0.0}, {"beta": -1.0}, {"bank": "int8"}])
def test_settings_that_mean_nothing_are_refused(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        AuditSettings(**wrong)


def test_a_block_holds_a_batch(model):
    with pytest.raises(InputError, match="holds no anchor batch"):
        AuditSettings(batch_pairs=8, block_pairs=4).settled(model, 100)


def test_the_summary_finds_what_is_marked(exact):
    found = summary(exact[1].append_column("agree", [[None] * 12]), exact=True)
    assert found["found"]["flipped"][0]["signal"] == "weight"
    assert found["found"]["flipped"][0]["marked"] == 4
    assert "disagree" not in found["found"]
    assert -1 <= found["order_between_compositions"]["least"] <= found["order_between_compositions"]["mean"] <= 1
    assert found["first_order_and_measured"] > 0.8
