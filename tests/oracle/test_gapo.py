"""Gap, weight and parameter gradient of GAPO against the literal implementation, in float64, on every architecture."""

import pytest
import torch

import literal
import tiny
from gapo.anchor import AnchorSettings, probe
from gapo.anchor.engines import choose_engine
from gapo.anchor.gap import margin_direction, parameters_in_scope
from gapo.anchor.stand_ins import length_terms, scaled_to_gap
from gapo.errors import InputError
from gapo.model.policy import pair_logps
from gapo.objectives import get_objective
from gapo.pairs.collate import collate
from steps import step_gradient

RADIUS, BETA, GAMMA = 0.05, 2.5, 0.1


def test_gap_weight_and_gradient_are_those_of_the_paper(any_model):
    pairs = tiny.random_pairs(4)
    objective = get_objective("gapo", beta=BETA, gamma=GAMMA)
    batches = [collate(pairs[:3], tiny.PAD), collate(pairs[3:], tiny.PAD)]
    loss, gradient, prepared = step_gradient(any_model, objective, AnchorSettings(radius=RADIUS), batches)

    truth = literal.loss(any_model, pairs, RADIUS, BETA, GAMMA)
    wanted = torch.autograd.grad(truth, list(any_model.parameters()))
    gaps = torch.stack(literal.gaps(any_model, pairs, RADIUS)).detach()
    found = torch.cat([part.gap for part in prepared])
    weights = torch.cat([part.known.weight for part in prepared])
    assert torch.allclose(found, gaps, atol=1e-10)
    assert torch.allclose(weights, BETA * torch.sigmoid(GAMMA - BETA * gaps), atol=1e-10)
    assert loss == pytest.approx(truth.item(), abs=1e-10)
    for ours, theirs in zip(gradient, wanted, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-10)


def test_the_gradient_is_minus_weight_times_the_margins_gradient(llama):
    pairs = tiny.random_pairs(4)
    objective = get_objective("gapo")
    _, gradient, prepared = step_gradient(llama, objective, AnchorSettings(), [collate(pairs, tiny.PAD)])
    wanted = [torch.zeros_like(p) for p in llama.parameters()]
    for weight, pair in zip(prepared[0].known.weight, pairs, strict=True):
        own = torch.autograd.grad(literal.margin(llama, pair), list(llama.parameters()))
        wanted = [total - weight * part / len(pairs) for total, part in zip(wanted, own, strict=True)]
    for ours, theirs in zip(gradient, wanted, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-10)


def test_numerical_gradient_of_the_loss_along_random_directions(llama):
    """The anchor is a constant of the loss: differences are taken with the gap's second term held fixed."""
    pairs = tiny.random_pairs(3)
    objective = get_objective("gapo", beta=BETA, gamma=GAMMA)
    _, gradient, prepared = step_gradient(llama, objective, AnchorSettings(radius=RADIUS), [collate(pairs, tiny.PAD)])
    anchor_margins = prepared[0].needs["anchor"].margin
    generator = torch.Generator().manual_seed(0)
    directions = [
        [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in llama.parameters()] for _ in range(3)
    ]

    @torch.no_grad()
    def loss_at(direction, t):
        for p, d in zip(llama.parameters(), direction, strict=True):
            p += t * d
        gap = torch.stack([literal.margin(llama, pair) for pair in pairs]) - anchor_margins
        for p, d in zip(llama.parameters(), direction, strict=True):
            p -= t * d
        return -torch.nn.functional.logsigmoid(BETA * gap - GAMMA).mean()

    for direction in directions:
        slope = sum((g * d).sum() for g, d in zip(gradient, direction, strict=True))
        numerical = (loss_at(direction, 1e-6) - loss_at(direction, -1e-6)) / 2e-6
        assert torch.allclose(slope, numerical, atol=1e-6)


def test_groups_of_k_micro_batches_have_an_anchor_each(llama):
    pairs = tiny.random_pairs(4)
    batches = [collate(pairs[i : i + 1], tiny.PAD) for i in range(4)]
    _, _, prepared = step_gradient(llama, get_objective("gapo"), AnchorSettings(radius=RADIUS, batches=2), batches)
    found = torch.cat([part.gap for part in prepared])
    first = literal.gaps(llama, pairs[:2], RADIUS)
    second = literal.gaps(llama, pairs[2:], RADIUS)
    assert torch.allclose(found, torch.stack([*first, *second]).detach(), atol=1e-10)


def test_instance_wise_anchors_use_each_pairs_own_direction(llama):
    pairs = tiny.random_pairs(3)
    found = probe(llama, [collate(pairs, tiny.PAD)], AnchorSettings(radius=RADIUS, strategy="instance"))
    wanted = [literal.gaps(llama, [pair], RADIUS)[0] for pair in pairs]
    assert torch.allclose(found.gap, torch.stack(wanted).detach(), atol=1e-10)


def test_random_anchors_move_the_whole_radius_and_differ_between_steps_only(llama):
    batch = [collate(tiny.random_pairs(3), tiny.PAD)]
    settings = AnchorSettings(radius=RADIUS, strategy="random")
    first, again, later = (probe(llama, batch, settings, step) for step in (1, 1, 2))
    assert first.moved == pytest.approx(RADIUS)
    assert torch.equal(first.gap, again.gap)
    assert not torch.equal(first.gap, later.gap)


@pytest.mark.parametrize("name", ["llama", "llama_tied"])
def test_scope_lm_head_moves_the_output_layer_only(name):
    model = tiny.MODELS[name]()
    scope = parameters_in_scope(model, "lm_head")
    assert [id(p) for p in scope] == [id(model.get_output_embeddings().weight)]
    pairs = tiny.random_pairs(3)
    found = probe(model, [collate(pairs, tiny.PAD)], AnchorSettings(radius=RADIUS, scope="lm_head"))
    mean = sum(literal.margin(model, pair) for pair in pairs) / len(pairs)
    (gradient,) = torch.autograd.grad(mean, scope)
    before = torch.stack([literal.margin(model, pair) for pair in pairs]).detach()
    with torch.no_grad():
        home = scope[0].clone()
        scope[0].sub_(RADIUS * gradient / gradient.norm())
        after = torch.stack([literal.margin(model, pair) for pair in pairs])
        scope[0].copy_(home)
    assert torch.allclose(found.gap, before - after, atol=1e-10)


def test_scope_takes_a_regex_and_says_when_it_matches_nothing(llama):
    names = [name for name, _ in llama.named_parameters() if "mlp" in name]
    assert len(parameters_in_scope(llama, r"\.mlp\.")) == len(names)
    with pytest.raises(InputError, match="matches no trained parameter"):
        parameters_in_scope(llama, "nowhere")
    with pytest.raises(InputError, match="or a regular expression"):
        parameters_in_scope(llama, "(")


def test_gradnorm_and_length_only_use_stand_ins_with_the_gaps_mean(llama):
    pairs = tiny.random_pairs(4)
    batches = [collate(pairs, tiny.PAD)]
    parameters = list(llama.parameters())
    own = [torch.autograd.grad(literal.margin(llama, pair), parameters) for pair in pairs]
    norms = torch.stack([literal.norm(gradient) for gradient in own])
    mean_norm = literal.norm(literal.mean_margin_gradient(llama, pairs))
    for name in ("two_pass", "bank"):
        settings = AnchorSettings(engine=name)
        found = choose_engine(settings, llama, 4).engine(settings).norms(llama, batches)
        assert torch.allclose(found.geometry.grad_norm, norms, rtol=1e-6)
        assert found.direction_norm == pytest.approx(mean_norm.item(), rel=1e-9)
    for name, values in (
        ("gradnorm", norms),
        ("length_only", torch.tensor([1 / len(p.chosen) + 1 / len(p.rejected) for p in pairs]).double()),
    ):
        stand_in = values / values.mean() * RADIUS * mean_norm
        _, gradient, prepared = step_gradient(llama, get_objective(name), AnchorSettings(radius=RADIUS), batches)
        weights = 2.5 * torch.sigmoid(0.1 - 2.5 * stand_in)
        assert torch.allclose(prepared[0].known.weight, weights, rtol=1e-6), name
        wanted = [-sum(w * g[i] for w, g in zip(weights, own, strict=True)) / 4 for i in range(len(parameters))]
        for ours, theirs in zip(gradient, wanted, strict=True):
            assert torch.allclose(ours, theirs, atol=1e-6), name


def test_length_terms_are_inverse_lengths_and_nothing_scales_without_a_direction(llama):
    pairs = tiny.random_pairs(3)
    policy = pair_logps(llama, collate(pairs, tiny.PAD))
    wanted = torch.tensor([1 / len(p.chosen) + 1 / len(p.rejected) for p in pairs]).double()
    assert torch.allclose(length_terms(policy), wanted)
    assert not scaled_to_gap(wanted, 0.0, RADIUS).any()
    assert not scaled_to_gap(wanted, float("nan"), RADIUS).any()


def test_without_a_direction_the_gap_is_zero_and_the_weight_finite(llama):
    with torch.no_grad():  # a head and a norm of zeros: no parameter moves any log-prob to first order
        llama.lm_head.weight.zero_()
        llama.model.norm.weight.zero_()
    found = probe(llama, [collate(tiny.random_pairs(2), tiny.PAD)], AnchorSettings())
    assert torch.equal(found.gap, torch.zeros_like(found.gap))
    assert found.ratio is None
    assert found.moved == 0


def test_the_direction_leaves_gradients_as_they_were(llama):
    batch = collate(tiny.random_pairs(2), tiny.PAD)
    marks = [torch.randn_like(p) for p in llama.parameters()]
    for parameter, mark in zip(llama.parameters(), marks, strict=True):
        parameter.grad = mark
    margin_direction(llama, [batch], parameters_in_scope(llama))
    assert all(p.grad is mark for p, mark in zip(llama.parameters(), marks, strict=True))
