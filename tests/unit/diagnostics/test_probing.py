"""Probes of many pairs against a loop over pairs, tokens and weights, in float64."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import literal
import tiny
from gapo.diagnostics.drift import drift_between
from gapo.diagnostics.probing import ProbeSettings, anchor_batches, probe_models, probe_pairs, probe_sizes, weight_of
from gapo.diagnostics.tables import column
from gapo.errors import InputError
from gapo.model.logps import PairLogps
from gapo.model.perturb import displaced
from gapo.objectives import get_objective

FOUR = ProbeSettings(batch_pairs=4, seed=None)
GEOMETRY = ("grad_norm", "alignment", "gap_self", "gap_others")


@pytest.fixture(scope="module")
def model():
    return tiny.llama()


@pytest.fixture(scope="module")
def pairs():
    return [replace(pair, flipped=i % 3 == 0) for i, pair in enumerate(tiny.random_pairs(10))]


def flat(gradient):
    return torch.cat([part.flatten() for part in gradient])


@pytest.fixture(scope="module")
def gradients(model, pairs):
    """The margin's gradient of every pair, a row each."""
    parameters = list(model.parameters())
    return torch.stack([flat(torch.autograd.grad(literal.margin(model, pair), parameters)) for pair in pairs]).numpy()


def geometry_of(own, batch, radius):
    """Of one pair's gradient in a batch of gradients."""
    g = batch.mean(0)
    length = np.linalg.norm(g)
    share = radius * own @ own / (len(batch) * length)
    norm = np.linalg.norm(own)
    return norm, own @ g / (norm * length), share, radius * own @ g / length - share


def test_every_column_is_what_the_paper_says(model, pairs, gradients):
    """Ten pairs in batches of four: the last batch is pairs 6 to 9, of which two are new."""
    table = probe_pairs(model, pairs, tiny.PAD, FOUR)
    assert table["pair_id"].to_pylist() == [pair.id for pair in pairs]
    assert table["flipped"].to_pylist() == [pair.flipped for pair in pairs]
    assert table["group"].to_pylist() == [0] * 4 + [1] * 4 + [2] * 2
    for rows, new in ((range(4), range(4)), (range(4, 8), range(4, 8)), (range(6, 10), range(8, 10))):
        gaps = literal.gaps(model, [pairs[i] for i in rows], 0.05)
        batch = gradients[list(rows)]
        for i in new:
            row = {name: values[i] for name, values in table.to_pydict().items()}
            gap = gaps[list(rows).index(i)].item()
            assert row["gap"] == pytest.approx(gap, rel=1e-6)
            assert row["margin"] == pytest.approx(literal.margin(model, pairs[i]).item())
            assert row["anchor_margin"] == pytest.approx(row["margin"] - gap)
            assert [row[name] for name in GEOMETRY] == pytest.approx(geometry_of(gradients[i], batch, 0.05))
            assert row["own_gap"] == pytest.approx(0.05 * np.linalg.norm(gradients[i]))
            assert row["batch_grad_norm"] == pytest.approx(np.linalg.norm(batch))
            assert (row["chosen_tokens"], row["rejected_tokens"]) == (len(pairs[i].chosen), len(pairs[i].rejected))
            chosen = literal.sequence_logp(model, pairs[i].prompt, pairs[i].chosen)
            assert row["chosen_logp"] == pytest.approx(chosen.item())


def test_shuffled_pairs_come_back_as_they_stood(model, pairs, gradients):
    table = probe_pairs(model, pairs, tiny.PAD, replace(FOUR, seed=5))
    assert table["pair_id"].to_pylist() == [pair.id for pair in pairs]
    for k, (rows, new) in enumerate(anchor_batches(len(pairs), 4, seed=5)):
        assert list(rows) != sorted(rows)
        for i in rows[4 - new :]:
            row = {name: values[i] for name, values in table.to_pydict().items()}
            assert row["group"] == k
            assert [row[name] for name in GEOMETRY] == pytest.approx(geometry_of(gradients[i], gradients[rows], 0.05))


@pytest.mark.parametrize("room", [1, 3])
def test_room_for_a_few_gradients_gives_the_same(model, pairs, room):
    whole = probe_pairs(model, pairs, tiny.PAD, FOUR).to_pydict()
    sparing = probe_pairs(model, pairs, tiny.PAD, replace(FOUR, gradients=room)).to_pydict()
    for name, values in whole.items():
        if isinstance(values[0], float):
            assert sparing[name] == pytest.approx(values, rel=1e-9), name
        else:
            assert sparing[name] == values, name


def test_several_sizes_at_once_are_probes_of_each(model, pairs):
    found = probe_sizes(model, pairs[:8], tiny.PAD, (2, 4, 8), replace(FOUR, seed=3))
    for size, table in found.items():
        one = probe_pairs(model, pairs[:8], tiny.PAD, replace(FOUR, batch_pairs=size, seed=3, exact=False))
        for name in one.column_names:
            if one.schema.field(name).type == "double":
                assert column(table, name) == pytest.approx(column(one, name), rel=1e-8), (size, name)
            else:
                assert table[name].to_pylist() == one[name].to_pylist(), (size, name)


def test_several_sizes_also_where_the_largest_does_not_divide(model, pairs):
    """Ten pairs at eight: the second batch shows its last two, which are a batch of two of their own."""
    table = probe_sizes(model, pairs, tiny.PAD, (2, 8), FOUR)[2]
    assert table.num_rows == 10
    alone = probe_pairs(model, pairs[8:], tiny.PAD, replace(FOUR, batch_pairs=2, exact=False))
    assert column(table, "alignment")[8:] == pytest.approx(column(alone, "alignment"))


def test_first_order_is_the_sum_of_the_parts_and_near_the_exact_gap(model, pairs):
    small = replace(FOUR, radius=1e-5)
    exact, first = (probe_pairs(model, pairs, tiny.PAD, replace(small, exact=exact)) for exact in (True, False))
    assert column(first, "gap") == pytest.approx(column(first, "gap_self") + column(first, "gap_others"))
    assert column(first, "gap") == pytest.approx(column(exact, "gap"), rel=2e-2, abs=1e-8)


def test_weights_are_those_of_the_objective(model, pairs):
    """Minus the slope of GAPO's loss in the margin, by autograd."""
    table = probe_pairs(model, pairs, tiny.PAD, replace(FOUR, beta=1.7, gamma=0.4))
    margin = torch.tensor(column(table, "margin"), requires_grad=True)
    ones = torch.ones(len(pairs), dtype=torch.int64)
    policy = PairLogps(margin, torch.zeros_like(margin), ones, ones)
    anchor = PairLogps(torch.tensor(column(table, "anchor_margin")), torch.zeros_like(margin), ones, ones)
    loss = get_objective("gapo", beta=1.7, gamma=0.4)(policy=policy, anchor=anchor)
    slope = torch.autograd.grad(loss.sum(), margin)[0]
    assert column(table, "weight") == pytest.approx(-slope.numpy())
    assert weight_of(np.array([1e4]), 2.5, 0.1) == pytest.approx(0)


def test_the_model_comes_home_and_no_gradient_is_left(model, pairs):
    before = [p.detach().clone() for p in model.parameters()]
    probe_pairs(model, pairs, tiny.PAD, FOUR)
    assert all(torch.equal(p, old) for p, old in zip(model.parameters(), before, strict=True))
    assert all(p.grad is None for p in model.parameters())


def test_scope_is_the_anchors(model, pairs):
    head = probe_pairs(model, pairs, tiny.PAD, replace(FOUR, scope="lm_head"))
    full = probe_pairs(model, pairs, tiny.PAD, FOUR)
    assert (column(head, "grad_norm") < column(full, "grad_norm")).all()


@pytest.mark.parametrize(("count", "size"), [(10, 4), (8, 4), (4, 4), (9, 2)])
def test_every_pair_is_new_in_one_full_batch(count, size):
    batches = anchor_batches(count, size, seed=1)
    assert all(len(rows) == size for rows, _ in batches)
    assert sorted(i for rows, new in batches for i in rows[size - new :]) == list(range(count))
    again = anchor_batches(count, size, seed=1)
    assert all((one[0] == other[0]).all() for one, other in zip(batches, again, strict=True))


def test_impossible_batches_are_refused(model, pairs):
    with pytest.raises(InputError, match="an anchor batch of 64 pairs needs as many pairs, and there are 10"):
        probe_pairs(model, pairs, tiny.PAD)
    with pytest.raises(InputError, match="must divide the largest, 8"):
        probe_sizes(model, pairs, tiny.PAD, (3, 8))
    with pytest.raises(InputError, match="gradients of 8 pairs do not fit in memory, 2 do"):
        probe_sizes(model, pairs, tiny.PAD, (4, 8), replace(FOUR, gradients=2))


def test_models_by_name_are_probed_one_after_the_other(tmp_path, pairs):
    models = {0.0: tiny.llama(dtype=torch.float32), 1.0: tiny.llama(seed=1, dtype=torch.float32)}
    for moment, model in models.items():
        model.save_pretrained(tmp_path / str(moment))
        tiny.tiny_tokenizer().save_pretrained(tmp_path / str(moment))
    table = probe_models({moment: tmp_path / str(moment) for moment in models}, pairs, tiny.PAD, FOUR)
    assert table["pair_id"].to_pylist() == [pair.id for pair in pairs] * 2
    for moment, model in models.items():
        alone = probe_pairs(model, pairs, tiny.PAD, FOUR)
        assert column(table, "gap")[column(table, "moment") == moment] == pytest.approx(column(alone, "gap"), rel=1e-3)


def test_drift_between_two_models_is_their_divergence():
    """mean over response tokens of sum_v p(v) log(p(v)/q(v)), p of the start model; the vocabulary is small."""
    start, model = tiny.llama(), tiny.llama()
    pairs = tiny.random_pairs(3)
    parameters = list(model.parameters())
    terms = []
    with displaced(parameters, [torch.ones_like(p) for p in parameters], 1.0), torch.no_grad():
        for pair in pairs:
            for response in (pair.chosen, pair.rejected):
                ids = torch.tensor([pair.prompt + response])
                p, q = (each(input_ids=ids).logits[0].log_softmax(-1) for each in (start, model))
                terms += (p.exp() * (p - q)).sum(1)[len(pair.prompt) - 1 : -1].tolist()
        assert drift_between(start, model, pairs, tiny.PAD) == pytest.approx(np.mean(terms), rel=1e-6)
    assert drift_between(start, model, pairs, tiny.PAD) == pytest.approx(0, abs=1e-9)
