"""Which forwards a gap is made of, and what an audit concludes, with the forwards' answers written by hand."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import nn

from gapo.anchor import forwards
from gapo.anchor.engine import is_audit
from gapo.anchor.forwards import GapForwards
from gapo.anchor.gap import Direction
from gapo.model.logps import PairLogps
from gapo.model.ranks import ALONE
from twin import Twin

EXACT = torch.tensor([0.010, 0.030, 0.020], dtype=torch.float64)  # gaps in fp32; their ratio is 1
LITTLE, TOO_MUCH = (0.001, 0.0005, -0.0015), (0.0030, -0.0010, -0.0020)
RADIUS, NORM = 0.1, 0.2


def low():
    return nullcontext()


def at(margins):
    """Log-probs of one-token responses with these margins."""
    ones = torch.ones(len(margins), dtype=torch.long)
    return PairLogps(margins.double(), torch.zeros(len(margins)).double(), ones, ones)


class Scene:
    """Forwards that answer: at home margins 0, at the anchor minus the gap of their precision, by their place."""

    def __init__(self, monkeypatch, low_gap=EXACT, exact_gap=EXACT):
        self.asked = []
        self.weight = nn.Parameter(torch.zeros(2, dtype=torch.float64))
        self.gaps = {low: low_gap, nullcontext: exact_gap}
        monkeypatch.setattr(forwards, "forward", self.forward)

    def forward(self, model, batches, precision=nullcontext):
        away = bool(self.weight.detach().any())
        self.in_the_directions_memory = self.weight.data_ptr() == self.along.data_ptr()
        self.asked.append(("anchor" if away else "home", "low" if precision is low else "exact"))
        return at(-self.gaps[precision] if away else torch.zeros(3))

    def run(self, gap_forwards, **told):
        self.along = torch.ones(2, dtype=torch.float64)
        direction = Direction((self.weight,), (self.along,), NORM)
        return gap_forwards(None, [], at(torch.zeros(3)), direction, RADIUS, **told)


@pytest.mark.parametrize(
    ("state", "audit", "asked"),
    [
        ({"mixed": False}, False, [("anchor", "exact")]),
        ({"mixed": False}, True, [("anchor", "exact")]),
        ({"mixed": False, "safe": True}, False, [("anchor", "exact")]),
        ({"mixed": True}, False, [("home", "exact"), ("anchor", "exact")]),
        ({"mixed": True, "safe": True}, False, [("anchor", "low")]),
        ({"mixed": True}, True, [("home", "exact"), ("anchor", "exact"), ("anchor", "low")]),
        ({"mixed": True, "safe": True}, True, [("home", "exact"), ("anchor", "exact"), ("anchor", "low")]),
    ],
)
def test_both_ends_of_a_gap_have_one_precision_and_no_forward_is_made_for_nothing(monkeypatch, state, audit, asked):
    scene = Scene(monkeypatch)
    home, anchor, moved = scene.run(GapForwards(low, **state), **({"audit": True} if audit else {}))
    assert scene.asked == asked
    assert torch.equal(home.margin - anchor.margin, EXACT)
    assert moved == pytest.approx(RADIUS)
    assert scene.in_the_directions_memory


@pytest.mark.parametrize(
    ("low_gap", "safe"),
    [
        (EXACT, True),
        (EXACT * 1.09, True),
        (EXACT * 0.91, True),
        (EXACT * 1.11, False),  # its ratio is off by more than a tenth
        (EXACT * 0.89, False),
        (EXACT + torch.tensor(LITTLE), True),
        (EXACT + torch.tensor(TOO_MUCH), False),
        (torch.full((3,), 0.02), False),  # the mean, but none of the differences
        (EXACT.flip(0), False),
    ],
)
@pytest.mark.parametrize("before", [False, True])
def test_bf16_is_safe_where_it_measures_the_same_ratio_and_the_same_order(monkeypatch, low_gap, safe, before):
    scene = Scene(monkeypatch, low_gap.double())
    measured = GapForwards(low, mixed=True, safe=before)
    scene.run(measured, audit=True)
    assert measured.safe is safe


def test_a_correlation_of_99_hundredths_is_asked_for():
    """What was added above leaves the mean as it is, and the correlation on either side of that bound."""
    near, far = (np.corrcoef(EXACT, EXACT.numpy() + noise)[0, 1] for noise in (LITTLE, TOO_MUCH))
    assert far < 0.99 < near


def test_a_negative_ratio_may_be_measured_too(monkeypatch):
    measured = GapForwards(low, mixed=True)
    Scene(monkeypatch, -EXACT * 1.05, -EXACT).run(measured, audit=True)
    assert measured.safe


def test_without_a_gap_there_is_nothing_to_trust(monkeypatch):
    measured = GapForwards(low, mixed=True, safe=True)
    Scene(monkeypatch, EXACT * 0, EXACT * 0).run(measured, audit=True)
    assert not measured.safe


def test_gaps_that_cancel_are_measured_if_they_cancel_in_bf16_too(monkeypatch):
    measured = GapForwards(low, mixed=True)
    Scene(monkeypatch, *[torch.tensor([-0.5, 0.0, 0.5])] * 2).run(measured, audit=True)
    assert measured.safe


@pytest.mark.parametrize(("agreement", "safe"), [(0.99, True), (0.9899, False)])
def test_the_bound_itself_is_enough(monkeypatch, agreement, safe):
    monkeypatch.setattr(forwards, "correlation", lambda *_: agreement)
    measured = GapForwards(low, mixed=True)
    Scene(monkeypatch).run(measured, audit=True)
    assert measured.safe is safe


@pytest.mark.parametrize(("factor", "safe"), [(1.05, True), (1.2, False)])
def test_two_ranks_judge_as_one(monkeypatch, factor, safe):
    measured = GapForwards(low, mixed=True, ranks=Twin())
    Scene(monkeypatch, EXACT * factor).run(measured, audit=True)
    assert measured.safe is safe


@pytest.mark.parametrize("ranks", [ALONE, Twin()])
def test_a_change_of_precision_is_told_once_with_both_ratios(monkeypatch, caplog, ranks):
    measured = GapForwards(low, mixed=True, ranks=ranks)
    with caplog.at_level("INFO", logger="gapo"):
        for _ in range(3):
            Scene(monkeypatch, EXACT * 1.05).run(measured, audit=True)
    assert [record.getMessage() for record in caplog.records] == [
        "the gap is measured in bf16 from here: self-check ratio 1.05 in bf16, 1.00 in fp32, correlation 1.000"
    ]


def test_where_each_rank_has_a_direction_the_ratio_is_that_of_their_mean_length(monkeypatch, caplog):
    class Longer(Twin):
        """The other rank's direction is three times as long."""

        def sum_of(self, number):
            return number + 3 * NORM if number == NORM else super().sum_of(number)

    with caplog.at_level("INFO", logger="gapo"):
        Scene(monkeypatch).run(GapForwards(low, mixed=True, ranks=Longer()), audit=True)
    assert "ratio 0.50 in bf16, 0.50 in fp32" in caplog.text


def test_the_first_step_and_every_fiftieth_after_it_are_audits():
    assert [step for step in range(120) if is_audit(step)] == [1, 51, 101]


def test_untold_the_weights_own_precision_is_the_precision():
    untold = GapForwards()
    assert (untold.mixed, untold.safe, untold.ranks.total) == (False, False, 1)


def test_correlations_are_taken_in_float64():
    """Of numbers whose mean fp32 cannot hold."""
    one, other = torch.tensor([0.0, 2.0, 6.0]) + 2**24, torch.tensor([0.0, 4.0, 6.0]) + 2**24
    wanted = np.corrcoef(one.double(), other.double())[0, 1]
    assert forwards.correlation(one, other) == pytest.approx(wanted, rel=1e-9)
    assert forwards.correlation(one, torch.tensor([0.0, 4.0, 6.0])) == pytest.approx(wanted, rel=1e-9)
    assert forwards.correlation(torch.tensor([0.0, 4.0, 6.0]), one) == pytest.approx(wanted, rel=1e-9)
