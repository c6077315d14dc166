"""When the gap may be measured in bf16."""

from contextlib import nullcontext

import pytest
import torch

import tiny
from gapo.anchor.banked import Bank
from gapo.anchor.forwards import GapForwards, correlation
from gapo.anchor.settings import AnchorSettings
from gapo.anchor.two_pass import TwoPass
from gapo.model.passes import forward
from gapo.pairs.collate import collate


def bf16():
    return torch.autocast("cpu", torch.bfloat16)


@pytest.fixture
def model():
    return tiny.llama(dtype=torch.float32)


@pytest.fixture
def batches():
    return [collate(tiny.random_pairs(6), tiny.PAD, True)]


@pytest.mark.parametrize("engine", [TwoPass, Bank])
def test_both_forwards_of_a_gap_are_in_fp32_while_bf16_is_not_known_to_be_safe(model, batches, engine):
    mixed = engine(AnchorSettings(radius=0.05), bf16, mixed=True)
    found = mixed.anchors(model, batches, step=2)
    exact = forward(model, batches)
    assert torch.equal(found.policy.chosen, exact.chosen)
    assert torch.equal(found.policy.rejected, exact.rejected)
    assert found.ratio == pytest.approx(TwoPass(AnchorSettings(radius=0.05)).anchors(model, batches).ratio, rel=0.05)


def test_a_small_move_is_lost_in_bf16_and_the_audit_says_so(model, batches):
    engine = TwoPass(AnchorSettings(radius=1e-4), bf16, mixed=True)
    engine.forwards.safe = True  # as an earlier audit had it
    engine.anchors(model, batches, step=1)
    assert not engine.forwards.safe


def test_where_low_precision_measures_the_same_gap_the_audit_allows_it(model, batches):
    engine = TwoPass(AnchorSettings(radius=0.05), nullcontext, mixed=True)  # "low" is as good as exact here
    engine.anchors(model, batches, step=1)
    assert engine.forwards.safe
    assert engine.state() == {"safe": True}


def test_a_forward_inside_one_autocast_of_its_own_sees_the_move(model, batches):
    """autocast keeps cast weights: one around both forwards would make every gap 0."""
    forwards = GapForwards(bf16, mixed=True, safe=True)
    engine = TwoPass(AnchorSettings(radius=0.5), bf16, mixed=True)
    engine.forwards = forwards
    assert float(engine.anchors(model, batches, step=2).gap.abs().min()) > 0


def test_correlation_is_pearsons_and_unknown_without_variation():
    x = torch.tensor([1.0, 2.0, 4.0])
    assert correlation(x, 3 * x + 1) == pytest.approx(1)
    assert correlation(x, -x) == pytest.approx(-1)
    assert torch.isnan(torch.tensor(correlation(x, torch.ones(3))))
