"""Accuracy, intervals, running statistics and drift."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import tiny
from gapo.model.perturb import displaced
from gapo.training import drift as drift_module
from gapo.training.drift import DriftProbe
from gapo.training.metrics import accuracy
from gapo.training.moments import RunningMoments
from gapo.training.wilson import wilson_interval


def test_a_tie_counts_half():
    assert accuracy(torch.tensor([1.0, -1.0, 0.0, 2.0])) == pytest.approx(2.5 / 4)


@given(wins=st.integers(0, 500), losses=st.integers(0, 500))
def test_wilsons_interval_holds_the_share_and_stays_inside(wins, losses):
    n = wins + losses
    if not n:
        return
    low, high = wilson_interval(wins / n, n)
    assert 0 <= low <= wins / n + 1e-12
    assert wins / n - 1e-12 <= high <= 1


def test_wilsons_interval_solves_its_equation():
    """Both ends p satisfy |share - p| = z * sqrt(p(1-p)/n)."""
    for end in wilson_interval(0.3, 50):
        assert abs(0.3 - end) == pytest.approx(1.959963984540054 * math.sqrt(end * (1 - end) / 50))


def test_running_moments_are_weighted_means_without_a_cold_start():
    moments = RunningMoments(decay=0.9)
    assert moments.moments.std == 0
    batches = [torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0]), torch.tensor([0.0, 1.0])]
    for batch in batches:
        found = moments.update(batch)
    shares = [0.9**2, 0.9, 1.0]
    mean = sum(s * float(b.mean()) for s, b in zip(shares, batches, strict=True)) / sum(shares)
    second = sum(s * float((b**2).mean()) for s, b in zip(shares, batches, strict=True)) / sum(shares)
    assert found.mean == pytest.approx(mean)
    assert found.std == pytest.approx(math.sqrt(second - mean**2))


@torch.no_grad()
def literal_drift(start, now, pairs):
    """mean over response positions of sum_v p(v) log(p(v)/q(v)), p of the start model."""
    terms = []
    for pair in pairs:
        for response in (pair.chosen, pair.rejected):
            ids = torch.tensor([pair.prompt + response])
            p, q = (model(input_ids=ids).logits[0].log_softmax(-1) for model in (start, now))
            for position in range(len(pair.prompt) - 1, ids.shape[1] - 1):
                terms.append(float((p[position].exp() * (p[position] - q[position])).sum()))
    return sum(terms) / len(terms)


@pytest.mark.parametrize("top", [256, 5])
def test_drift_is_zero_at_the_start_and_the_kl_divergence_after_a_move(top, monkeypatch):
    """Exact where the vocabulary fits, a lower bound where it does not."""
    monkeypatch.setattr(drift_module, "TOP", top)
    model, start = tiny.llama(), tiny.llama()
    pairs = tiny.random_pairs(3)
    probe = DriftProbe(model, pairs, tiny.PAD)
    assert probe.measure(model) == pytest.approx(0, abs=1e-9)
    parameters = list(model.parameters())
    with displaced(parameters, [torch.ones_like(p) for p in parameters], 1.0):
        truth, found = literal_drift(start, model, pairs), probe.measure(model)
    assert found == pytest.approx(truth, rel=1e-6) if top == 256 else 0 < found < truth
