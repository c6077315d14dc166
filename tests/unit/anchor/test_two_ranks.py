"""A step shared by two processes with the same pairs is the step of one process with every pair twice."""

from dataclasses import dataclass, field

import pytest
import torch

import tiny
from gapo.anchor import AnchorSettings
from gapo.anchor.engines import ENGINES
from gapo.anchor.stand_ins import scaled_to_gap
from gapo.pairs.collate import collate
from twin import Twin

RADIUS = 0.05
STRATEGIES = [("batch", name) for name in ENGINES] + [
    (strategy, name) for strategy in ("instance", "random") for name in ("two_pass", "bank", "first_order")
]


def weigh(places, policy, anchor):
    """Any weight will do that differs from pair to pair."""
    return 1 / (2 + policy.margin - 3 * anchor.margin)


def close(wanted):
    """The same numbers up to rounding, and nothing where there is nothing."""
    return [value if value is None else pytest.approx(value, rel=1e-9) for value in wanted]


def settings(**told):
    return AnchorSettings(radius=RADIUS, batches=2, **told)


@pytest.fixture
def batch():
    return collate(tiny.random_pairs(3, seed=9), tiny.PAD)


@pytest.mark.parametrize(("strategy", "name"), STRATEGIES)
@pytest.mark.parametrize("step", [1, 2])
def test_two_processes_stress_test_their_pairs_together(llama, batch, strategy, name, step):
    told = settings(strategy=strategy)
    ours, theirs = ENGINES[name](told, ranks=Twin()), ENGINES[name](told)
    found = ours.anchors(llama, [batch], step, weigh)
    wanted = theirs.anchors(llama, [batch, batch], step, weigh)
    assert torch.allclose(found.gap, wanted.gap[:3], atol=1e-12)
    assert list(found.summary) == close(wanted.summary)
    if found.geometry is not None:
        for column in ("grad_norm", "alignment", "gap_self", "gap_others"):
            ours_too, theirs_too = getattr(found.geometry, column), getattr(wanted.geometry, column)
            assert torch.allclose(ours_too, theirs_too[:3], atol=1e-12, equal_nan=True), column
    if found.gradient is not None:
        for mine, all_of_it in zip(found.gradient, wanted.gradient, strict=True):
            assert torch.allclose(mine, all_of_it, atol=1e-12)
    assert list(ours.state().values()) == close(theirs.state().values())


@dataclass(frozen=True)
class Telling(Twin):
    """Counts its messages."""

    sums: list[int] = field(default_factory=list)

    def sum(self, tensor):
        self.sums.append(tensor.numel())
        return super().sum(tensor)


@pytest.mark.parametrize(("strategy", "name"), STRATEGIES)
def test_ranks_with_more_pairs_have_no_more_messages(llama, strategy, name):
    """Else one rank would wait for a message that another with fewer pairs never sends."""
    sent = []
    for pairs in (2, 3):
        ranks = Telling()
        engine = ENGINES[name](settings(strategy=strategy), ranks=ranks)
        engine.anchors(llama, [collate(tiny.random_pairs(pairs), tiny.PAD)], 2, weigh)
        sent.append(len(ranks.sums))
    assert sent[0] == sent[1]


@pytest.mark.parametrize("name", ["two_pass", "bank", "first_order"])
def test_an_untold_step_is_step_zero(llama, batch, name):
    engine = ENGINES[name](settings(strategy="random"))
    assert torch.equal(engine.anchors(llama, [batch]).gap, engine.anchors(llama, [batch], 0).gap)


@pytest.mark.parametrize("name", ENGINES)
def test_a_rank_with_a_direction_of_its_own_is_as_if_alone(llama, batch, name):
    found = ENGINES[name](settings(direction="rank"), ranks=Twin()).anchors(llama, [batch], 2, weigh)
    wanted = ENGINES[name](settings()).anchors(llama, [batch], 2, weigh)
    assert torch.allclose(found.gap, wanted.gap, atol=1e-12)
    assert list(found.summary) == close(wanted.summary)


@pytest.mark.parametrize("name", ["two_pass", "bank"])
def test_what_the_controls_are_scaled_by_is_shared_too(llama, batch, name):
    for asked in ("norms", "directions"):
        found = getattr(ENGINES[name](settings(), ranks=Twin()), asked)(llama, [batch])
        wanted = getattr(ENGINES[name](settings()), asked)(llama, [batch, batch])
        assert found.direction_norm == pytest.approx(wanted.direction_norm, rel=1e-9)
        if found.geometry is not None:
            assert torch.allclose(found.geometry.gap_self, wanted.geometry.gap_self[:3], atol=1e-12)
            assert torch.allclose(found.geometry.gap_others, wanted.geometry.gap_others[:3], atol=1e-12)


def test_streaming_takes_the_direction_of_the_controls_from_both_ranks(llama, batch):
    found = ENGINES["streaming"](settings(), ranks=Twin()).directions(llama, [batch])
    wanted = ENGINES["two_pass"](settings()).directions(llama, [batch, batch])
    assert found.direction_norm == pytest.approx(wanted.direction_norm, rel=1e-9)


def test_weighted_sums_of_a_bank_go_over_both_ranks(llama, batch):
    bank = ENGINES["bank"](settings()).norms(llama, [batch]).bank
    one, other = torch.tensor([1.0, -2.0, 0.5]).double(), torch.tensor([0.3, 0.1, -1.0]).double()
    for ours, alone in zip(bank.weighted(one, Twin()), bank.weighted(one), strict=True):
        assert torch.allclose(ours, 2 * alone, atol=1e-12)
    assert bank.cosine(one, other, Twin()) == pytest.approx(bank.cosine(one, other), rel=1e-12)


def test_a_stand_in_has_the_gaps_mean_over_both_ranks():
    values = torch.tensor([0.5, 1.0, 4.5], dtype=torch.float64)
    assert float(scaled_to_gap(values, 3.0, 0.1, Twin()).mean()) == pytest.approx(0.3, rel=1e-12)
