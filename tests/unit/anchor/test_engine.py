"""What engines share: groups, pairs on their own, random directions, and findings put together."""

import math
from contextlib import contextmanager, nullcontext
from itertools import pairwise

import pytest
import torch

import literal
import tiny
from gapo.anchor import AnchorSettings, probe
from gapo.anchor.banked import Bank, FirstOrder
from gapo.anchor.engine import each_pair
from gapo.anchor.engines import ENGINES
from gapo.anchor.gap import Direction, margin_direction, parameters_in_scope
from gapo.anchor.probe import GroupFinding
from gapo.anchor.two_pass import TwoPass
from gapo.model.logps import PairLogps
from gapo.model.passes import forward
from gapo.pairs.collate import PairBatch, collate

RADIUS = 0.05
NOBODY = PairBatch(torch.zeros(0, 1).long(), torch.zeros(0, 1).long())  # a rank may have no pair of a step


def in_batches(pairs, *sizes):
    cuts = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    return [collate(pairs[a:b], tiny.PAD) for a, b in pairwise(cuts)]


def test_so_many_micro_batches_make_a_group_and_the_rest_make_the_last():
    batches = in_batches(tiny.random_pairs(7), 2, 1, 3, 1)
    groups = list(TwoPass(AnchorSettings(batches=3)).groups(batches))
    assert [(places.start, places.stop) for places, _ in groups] == [(0, 6), (6, 7)]
    assert [batch for _, group in groups for batch in group] == batches
    assert len(list(TwoPass(AnchorSettings(batches=1)).groups(batches))) == 4


def test_each_pair_comes_alone_and_in_order():
    pairs = tiny.random_pairs(3)
    alone = list(each_pair(in_batches(pairs, 2, 1)))
    assert [len(batch) for batch in alone] == [1, 1, 1]
    assert [batch.response_counts().tolist() for batch in alone] == [[len(p.chosen), len(p.rejected)] for p in pairs]


@pytest.mark.parametrize(("seed", "step"), [(0, 0), (0, 4), (3, 2)])
def test_a_random_direction_is_the_same_in_every_release(llama, seed, step):
    """Normal numbers in fp32 from torch's generator, seeded with 1,000,003 * seed + step."""
    found = TwoPass(AnchorSettings(seed=seed)).random_direction(parameters_in_scope(llama), step)
    draw = torch.Generator().manual_seed(1_000_003 * seed + step)
    wanted = [torch.randn(p.shape, generator=draw, dtype=torch.float32).double() for p in llama.parameters()]
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(found.gradient, wanted, strict=True))
    assert found.norm == pytest.approx(float(literal.norm(wanted)))
    assert {part.dtype for part in found.gradient} == {torch.float64}


@pytest.mark.parametrize("norm", [0.0, math.inf, math.nan])
def test_without_a_direction_nothing_is_asked_of_the_model(norm):
    policy = PairLogps.none()
    found = TwoPass(AnchorSettings()).at_anchor(None, [], policy, Direction((), (), norm))
    assert found[0] is found[1] is policy
    assert found[2].moved == 0
    assert found[2].ratio is None


def test_the_ratio_of_a_short_direction_is_checked_unless_its_slope_is_unknown(llama):
    batches = in_batches(tiny.random_pairs(3), 3)
    with torch.no_grad():
        llama.lm_head.weight.mul_(1e-3)  # every log-prob close to uniform, every gradient small
        llama.model.norm.weight.mul_(0.1)
    engine = TwoPass(AnchorSettings(radius=1e-4))
    for checked in (True, False):
        direction, policy = margin_direction(llama, batches, parameters_in_scope(llama))
        assert direction.norm < 1
        _, _, finding = engine.at_anchor(llama, batches, policy, direction, checked=checked)
        assert finding.moved == pytest.approx(1e-4)
        assert finding.ratio == (pytest.approx(1, abs=0.1) if checked else None)


def test_a_parameter_the_margin_does_not_move_has_no_part_in_the_direction(llama):
    llama.register_parameter("idle", torch.nn.Parameter(torch.ones(3, dtype=torch.float64)))
    batches = in_batches(tiny.random_pairs(3), 3)
    direction, _ = margin_direction(llama, batches, parameters_in_scope(llama))
    still = [p is llama.idle for p in direction.parameters].index(True)
    assert not direction.gradient[still].any()
    nobody = margin_direction(llama, [NOBODY], parameters_in_scope(llama))
    assert (nobody[0].norm, len(nobody[1])) == (0, 0)


def test_pairs_with_an_anchor_each_are_told_by_their_means():
    ones = torch.ones(1, dtype=torch.long)

    def at(margin):
        return PairLogps(torch.tensor([margin], dtype=torch.float64), torch.zeros(1), ones, ones)

    alone = [(at(0.5), at(0.3), GroupFinding(2.0, 0.1)), (at(0.1), at(-0.3), GroupFinding(4.0, 0.3))]
    policy, anchor, finding = TwoPass(AnchorSettings(radius=0.2)).pair_by_pair(alone)
    assert policy.margin.tolist() == [0.5, 0.1]
    assert anchor.margin.tolist() == [0.3, -0.3]
    assert (finding.direction_norm, finding.moved) == (3.0, pytest.approx(0.2))
    assert finding.ratio == pytest.approx(0.3 / (0.2 * 3.0))
    assert TwoPass(AnchorSettings()).pair_by_pair(alone[:1])[2].direction_norm == 2.0
    nobody = TwoPass(AnchorSettings()).pair_by_pair([])
    assert (len(nobody[0]), nobody[2].direction_norm, nobody[2].moved, nobody[2].ratio) == (0, 0, 0, None)


@pytest.mark.parametrize("name", ["two_pass", "bank"])
def test_pair_by_pair_each_has_a_direction_and_moves_the_radius(llama, name):
    pairs = tiny.random_pairs(3, seed=4)
    engine = ENGINES[name](AnchorSettings(radius=RADIUS, strategy="instance"))
    found = engine.anchors(llama, in_batches(pairs, 2, 1), step=1)
    norms = [float(literal.norm(literal.mean_margin_gradient(llama, [pair]))) for pair in pairs]
    assert found.direction_norm == pytest.approx(sum(norms) / 3)
    assert found.moved == pytest.approx(RADIUS)
    assert found.ratio == pytest.approx(float(found.gap.mean()) / (RADIUS * sum(norms) / 3))


@pytest.mark.parametrize("name", ["two_pass", "bank"])
def test_the_ratio_of_a_random_direction_would_say_nothing(llama, name):
    engine = ENGINES[name](AnchorSettings(radius=RADIUS, strategy="random"))
    assert engine.anchors(llama, in_batches(tiny.random_pairs(2), 2), step=1).ratio is None


@pytest.mark.parametrize("name", ["two_pass", "bank"])
def test_geometry_is_that_of_each_group(llama, name):
    """Norms, and the cosines with the mean of the group's own gradients."""
    pairs = tiny.random_pairs(4, seed=5)
    engine = ENGINES[name](AnchorSettings(radius=RADIUS, batches=1))
    found = engine.norms(llama, in_batches(pairs, 3, 1))
    own = torch.stack([torch.cat([g.flatten() for g in literal.mean_margin_gradient(llama, [p])]) for p in pairs])
    mean = torch.stack([own[:3].mean(0)] * 3 + [own[3]])
    assert torch.allclose(found.geometry.grad_norm, own.norm(dim=1))
    assert torch.allclose(found.geometry.alignment, torch.cosine_similarity(own, mean))
    assert torch.allclose(found.geometry.gap_self[:3], RADIUS * own[:3].norm(dim=1) ** 2 / 3 / own[:3].mean(0).norm())
    assert torch.equal(found.policy.margin, found.anchor.margin)
    assert found.policy.margin.tolist() == pytest.approx(forward(llama, in_batches(pairs, 3, 1)).margin.tolist())
    norms = [finding.direction_norm for finding in found.groups]
    assert norms == pytest.approx([float(own[:3].mean(0).norm()), float(own[3].norm())])
    directions = engine.directions(llama, in_batches(pairs, 3, 1))
    assert [finding.direction_norm for finding in directions.groups] == pytest.approx(norms)


def test_audits_of_first_order_keep_the_estimate_beside_the_exact_anchor(llama):
    batches = in_batches(tiny.random_pairs(3, seed=6), 3)
    settings = AnchorSettings(radius=RADIUS)
    audited, plain = (FirstOrder(settings).anchors(llama, batches, step) for step in (1, 2))
    exact = TwoPass(settings).anchors(llama, batches).gap
    assert torch.allclose(audited.gap, exact, atol=1e-10)
    assert torch.allclose(audited.policy.margin - audited.estimate.margin, plain.gap, atol=1e-12)
    assert plain.estimate is None
    first_order = plain.geometry.gap_self + plain.geometry.gap_others
    assert torch.allclose(plain.gap, first_order, atol=1e-12)
    untold = probe(llama, batches, AnchorSettings(radius=RADIUS, engine="first_order"))  # no step, no audit
    assert untold.estimate is None
    assert FirstOrder(settings).anchors(llama, batches).estimate is None


def test_a_bank_is_kept_from_step_to_step_and_made_anew_when_other_parameters_train(llama):
    engine, batches = Bank(AnchorSettings()), in_batches(tiny.random_pairs(3), 3)
    first = engine.norms(llama, batches).bank
    assert engine.norms(llama, batches).bank is first
    llama.lm_head.weight.requires_grad_(False)
    second = engine.norms(llama, batches).bank
    assert second is not first
    assert len(second.parameters) == len(first.parameters) - 1


def test_room_is_taken_ahead_and_given_back(llama):
    engine = Bank(AnchorSettings())
    engine.release()  # nothing is kept yet
    engine.reserve(llama, 5)
    assert len(engine._kept) == 5
    assert all(not table.any() for table in engine._kept._tables)
    engine.release()
    assert len(engine._kept) == 0
    assert Bank(AnchorSettings(), dtype=torch.bfloat16)._bank_of(llama)._dtype is torch.bfloat16


@pytest.mark.parametrize(("name", "passes"), [("two_pass", 1), ("bank", 1), ("first_order", 1), ("streaming", 4)])
def test_passes_with_a_gradient_have_the_precision_that_was_asked_for(llama, name, passes):
    """Three pairs of a narrow model are one pass; streaming measures ||g|| first and then goes pair by pair."""
    inside = []

    @contextmanager
    def precision():
        inside.append(True)
        yield

    engine = ENGINES[name](AnchorSettings(), precision)
    engine.anchors(llama, in_batches(tiny.random_pairs(3), 3), 2, lambda *_: torch.ones(1))
    assert len(inside) == passes


def test_whether_bf16_is_safe_goes_with_a_checkpoint():
    assert not any(kind(AnchorSettings()).forwards.mixed for kind in ENGINES.values())
    engine = TwoPass(AnchorSettings(), mixed=True)
    assert engine.state() == {"safe": False}
    engine.load_state({"safe": True})
    assert engine.forwards.safe is True
    engine.load_state({})
    assert engine.forwards.safe is False


@pytest.mark.parametrize("name", ["two_pass", "bank"])
@pytest.mark.parametrize(("strategy", "audited"), [("batch", True), ("instance", False), ("random", False)])
def test_only_anchors_that_a_group_shares_are_audited(llama, name, strategy, audited):
    """Another precision that measures the same would be found safe at the first step."""
    engine = ENGINES[name](AnchorSettings(radius=RADIUS, strategy=strategy), nullcontext, mixed=True)
    engine.anchors(llama, in_batches(tiny.random_pairs(3), 3), step=1)
    assert engine.forwards.safe is audited
