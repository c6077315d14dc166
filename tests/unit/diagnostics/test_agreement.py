"""Disputed pairs: the join by id, marks the right way round, prompts as clusters."""

import numpy as np
import pyarrow as pa
import pytest

from gapo.diagnostics.agreement import disputed
from gapo.errors import InputError
from gapo.pairs.pair import PairSet, PreferencePair


@pytest.fixture
def judged():
    """Three pairs for each of 40 prompts; one pair in four is disputed."""
    rng = np.random.default_rng(0)
    pairs = [
        PreferencePair(f"p{i // 3}", f"a{i}", f"b{i}", subset="disagree" if rng.random() < 0.25 else "agree")
        for i in range(120)
    ]
    return PairSet(tuple(pairs))


def table_of(pairs, weight):
    n = len(pairs)
    rising = {name: np.arange(n, dtype=float) for name in ("gap", "gap_self", "gap_others", "grad_norm")}
    lengths = {"chosen_tokens": [3] * n, "rejected_tokens": [4] * n}
    return pa.table({"pair_id": list(pairs.ids), "weight": weight, "margin": np.zeros(n), **lengths, **rising})


def test_low_weights_of_disputed_pairs_are_found(judged):
    marked = np.array([pair.subset == "disagree" for pair in judged])
    weight = 1 - 0.5 * marked + np.random.default_rng(1).normal(0, 0.01, 120)
    order = np.random.default_rng(2).permutation(120)
    found = disputed(table_of(judged, weight).take(pa.array(order)), judged)
    assert found.prompts == 40
    assert found.weight.marked_pairs == marked.sum()
    assert found.weight.marked.value == pytest.approx(weight[marked].mean())
    assert found.weight.relative.high < -0.45
    areas = {one.signal: one.area.value for one in found.finders}
    assert areas["weight"] == 1
    assert areas["margin"] == 0.5
    assert found.tiers[0].rate.value == 1
    assert found.bottom_minus_top.value == 1


def test_rows_of_other_pairs_are_left_out(judged):
    table = table_of(judged, np.ones(120))
    assert disputed(table, judged[:60], draws=10).weight.other_pairs < 60
    with pytest.raises(InputError, match="none of the table's pairs"):
        disputed(table, PairSet((PreferencePair("x", "y", "z", subset="agree"),)))
