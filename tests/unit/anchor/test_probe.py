"""What a stress test found: geometry of a group, means over groups, and what stands in the gap's place."""

from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gapo.anchor.bank import Sums
from gapo.anchor.engines import Choice
from gapo.anchor.gap import Direction, self_check_ratio
from gapo.anchor.probe import Geometry, GroupFinding, Probe
from gapo.anchor.stand_ins import length_terms, scaled_to_gap
from gapo.model.logps import PairLogps

positive = st.floats(0.01, 50)


def logps(chosen, rejected, w=1, l=1):  # noqa: E741
    columns = [torch.tensor(x, dtype=torch.float64) for x in (chosen, rejected)]
    return PairLogps(*columns, *(torch.full((len(chosen),), n) for n in (w, l)))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 999), pairs=st.integers(1, 5), more=st.integers(0, 4), radius=positive)
def test_the_first_order_gap_is_the_own_share_and_the_others(seed, pairs, more, radius):
    """g is the mean over `pairs + more` gradients, of which the geometry is that of the first."""
    gradients = np.random.default_rng(seed).normal(size=(pairs + more, 7))
    g = gradients.mean(0)
    length, dots = np.linalg.norm(g), gradients[:pairs] @ g
    norms = np.linalg.norm(gradients[:pairs], axis=1)
    given_pairs = pairs + more if more else None
    found = Geometry.of(torch.tensor(norms), torch.tensor(dots), float(length), radius, given_pairs)
    others = (gradients.sum(0) - gradients[:pairs]) / (pairs + more)
    np.testing.assert_allclose(found.grad_norm, norms)
    np.testing.assert_allclose(found.alignment, dots / norms / length)
    np.testing.assert_allclose(found.gap_self, radius * norms**2 / (pairs + more) / length)
    np.testing.assert_allclose(found.gap_others, radius * (gradients[:pairs] * others).sum(1) / length, atol=1e-12)


def test_without_a_direction_no_pair_has_a_share():
    found = Geometry.of(torch.tensor([1.0, 2.0]), torch.zeros(2), 0.0, 0.05)
    assert not found.gap_self.any()
    assert not found.gap_others.any()
    assert found.alignment.isnan().all()


def test_a_short_direction_is_a_direction():
    found = Geometry.of(torch.tensor([0.5]).double(), torch.tensor([0.25]).double(), 0.5, 0.1)
    assert float(found.gap_self) == pytest.approx(0.05)
    assert float(found.gap_others) == pytest.approx(0.0)


def test_a_step_is_told_by_the_means_of_its_groups():
    one, other = logps([-1.0], [-2.0]), logps([-3.0, -1.0], [-4.0, -7.0])
    low = logps([-1.5], [-2.0]), logps([-3.5, -1.0], [-4.0, -6.0])
    findings = GroupFinding(2.0, 0.04, 0.9), GroupFinding(4.0)
    found = Probe.of([(one, low[0], findings[0]), (other, low[1], findings[1])])
    assert found.gap.tolist() == [0.5, 0.5, 1.0]
    assert found.summary == (0.9, 3.0, 0.02)  # the second has no ratio, and did not move
    both = Probe.of([(one, one, GroupFinding(1.0, 1.0, 0.5)), (one, one, GroupFinding(1.0, 1.0, 0.7))])
    assert both.ratio == pytest.approx(0.6)
    assert Probe.of([(one, one, findings[1])]).ratio is None


def test_the_self_check_is_the_mean_gap_over_what_the_slope_foretells():
    gap = torch.tensor([0.1, 0.3], dtype=torch.float64)
    assert self_check_ratio(gap, 4.0, 0.05) == pytest.approx(1.0)
    assert self_check_ratio(gap, 0.5, 0.1) == pytest.approx(4.0)  # also where rho * ||g|| is below 1
    assert self_check_ratio(gap, 0.0, 0.05) is None


@settings(max_examples=30, deadline=None)
@given(st.lists(positive, min_size=1, max_size=6), positive, positive)
def test_a_stand_in_keeps_its_proportions_and_has_the_mean_of_the_gap(values, norm, radius):
    given_values = np.array(values)
    found = scaled_to_gap(torch.tensor(given_values), norm, radius).numpy()
    np.testing.assert_allclose(found.mean(), radius * norm)
    np.testing.assert_allclose(found * given_values[0], given_values * found[0])


@pytest.mark.parametrize(
    ("values", "norm"),
    [
        ([1.0, 2.0], float("inf")),
        ([1.0, 2.0], float("nan")),
        ([1.0, float("inf")], 1.0),
        ([0.0, 0.0], 1.0),
        ([-1.0, 0.5], 1.0),
    ],
)
def test_without_a_finite_positive_mean_or_a_finite_direction_it_is_zero(values, norm):
    assert scaled_to_gap(torch.tensor(values), norm, 0.05).tolist() == [0, 0]


def test_length_terms_have_the_type_of_the_log_probs():
    found = length_terms(logps([-1.0], [-2.0], w=4, l=5))
    assert found.dtype == torch.float64
    assert float(found) == pytest.approx(1 / 4 + 1 / 5, rel=1e-15)


@pytest.mark.parametrize("kind", [Geometry, GroupFinding, Probe, Sums, Direction, Choice])
def test_findings_are_frozen(kind):
    made = kind(*[None] * len(fields(kind)))
    with pytest.raises(FrozenInstanceError):
        setattr(made, fields(kind)[0].name, 1)
