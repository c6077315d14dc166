"""The expansion of the gap and its spectral bound, over random models and pairs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import tiny
from gapo.diagnostics.expansion import spectral_bound, sweep
from gapo.pairs.collate import collate

RADII = tuple(np.geomspace(2.5e-4, 4e-3, 4))
SMALL = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
MODELS = {"llama": tiny.llama, "llama_tied": tiny.llama_tied, "gpt_neox": tiny.gpt_neox}


@settings(max_examples=12, deadline=None)
@given(
    name=some.sampled_from(sorted(MODELS)),
    seed=some.integers(0, 2**16),
    pairs=some.integers(3, 5),
    scope=some.sampled_from(["full", "lm_head", "mlp"]),
    shared=some.booleans(),
)
def test_the_rest_falls_as_the_cube_and_the_bound_holds(name, seed, pairs, scope, shared):
    model = MODELS[name](seed=seed, **SMALL)
    batch = collate(tiny.random_pairs(pairs, seed), tiny.PAD, shared)
    found = sweep(model, batch, RADII, scope)
    assert found.falls_as() == pytest.approx(3, abs=0.1)
    assert found.expansion.slope.mean() == pytest.approx(found.expansion.direction_norm, rel=1e-9)
    assert (np.abs(found.expansion.alignment) <= 1 + 1e-12).all()
    bound = spectral_bound(model, batch, RADII, scope, gaps=found.gaps)
    assert bound.holds
    assert (np.abs(bound.remainder) <= bound.cubic * 1.01 + 1e-14).all()
