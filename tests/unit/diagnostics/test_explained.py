"""Regressions on ranks against the inverse of the correlation matrix."""

import numpy as np
import pytest
from scipy.stats import rankdata

from gapo.diagnostics.explained import explained


@pytest.fixture
def columns():
    rng = np.random.default_rng(0)
    length = rng.normal(size=300)
    norm = length + rng.normal(size=300)
    return {"weight": np.exp(-2 * norm - 0.5 * length + rng.normal(size=300)), "length": length, "norm": norm}


def test_it_is_what_the_precision_matrix_of_the_ranks_says(columns):
    """R^2 = 1 - 1/P_00 and the partial correlation is -P_0k / sqrt(P_00 P_kk), P the inverse of the correlations."""
    weight, length, norm = columns.values()
    correlations = np.corrcoef([rankdata(column) for column in columns.values()])
    precision = np.linalg.inv(correlations)
    found = explained(weight, {"length": length, "norm": norm})
    assert found.together.value == pytest.approx(1 - 1 / precision[0, 0])
    for k, name in enumerate(("length", "norm"), start=1):
        assert found.correlation[name].value == pytest.approx(correlations[0, k])
        assert found.alone[name].value == pytest.approx(correlations[0, k] ** 2)
        wanted = -precision[0, k] / np.sqrt(precision[0, 0] * precision[k, k])
        assert found.partial[name].value == pytest.approx(wanted)
        assert found.partial[name].low < wanted < found.partial[name].high


def test_a_monotone_function_explains_everything_and_leaves_nothing_to_others(columns):
    found = explained(np.exp(columns["norm"]), {"norm": columns["norm"], "length": columns["length"]}, draws=50)
    assert found.together.value == pytest.approx(1)
    assert found.partial["norm"].value == pytest.approx(1)
    assert np.isnan(found.partial["length"].value)  # nothing of the target is left


def test_pairs_without_a_value_are_left_out(columns):
    weight, length, _ = columns.values()
    holes = length.copy()
    holes[:40] = np.nan
    found = explained(weight, {"length": holes}, draws=20)
    assert found.pairs == 260
    assert (
        found.alone["length"].value == explained(weight[40:], {"length": length[40:]}, draws=20).alone["length"].value
    )


def test_a_signal_that_never_changes_explains_nothing(columns):
    found = explained(columns["weight"], {"constant": np.ones(300), "length": columns["length"]}, draws=20)
    assert np.isnan(found.correlation["constant"].value)
    assert found.together.value == pytest.approx(found.alone["length"].value)
