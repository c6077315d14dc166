"""The head's own gradient against autograd through full logits."""

import pytest
import torch
from torch import nn

from gapo.model import head as head_module
from gapo.model.head import Head, plain_head

POSITIONS, HIDDEN, VOCABULARY = 11, 6, 17
KINDS = {"plain": {}, "softcap": {"softcap": 0.8}, "scale": {"scale": 1.7}, "both": {"softcap": 0.8, "scale": 0.6}}


def layer(bias=False, dtype=torch.float64):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Linear(HIDDEN, VOCABULARY, bias=bias).to(dtype)


def inputs(dtype=torch.float64):
    rng = torch.Generator().manual_seed(1)
    hidden = torch.randn(POSITIONS, HIDDEN, generator=rng, dtype=torch.float64).to(dtype).requires_grad_()
    upstream = torch.randn(POSITIONS, generator=rng, dtype=torch.float64)
    return hidden, torch.randint(0, VOCABULARY, (POSITIONS,), generator=rng), upstream


def plain(head, hidden, targets):
    """As its definition reads."""
    return head.logits(hidden).log_softmax(1).gather(1, targets[:, None]).squeeze(1)


@pytest.mark.parametrize("entries", [VOCABULARY * POSITIONS, VOCABULARY * 4, 1])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_value_and_gradients_are_autograds(kind, bias, entries, monkeypatch):
    monkeypatch.setattr(head_module, "CHUNK_ENTRIES", entries)
    head = Head(layer(bias), **kind)
    assert head.fused
    hidden, targets, upstream = inputs()
    leaves = [hidden, *head.layer.parameters()]
    ours, theirs = head.token_logps(hidden, targets), plain(head, hidden, targets)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-13)
    for mine, other in zip(
        torch.autograd.grad(ours @ upstream, leaves), torch.autograd.grad(theirs @ upstream, leaves), strict=True
    ):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("entries", [VOCABULARY * POSITIONS, VOCABULARY * 4])
def test_a_second_backward_through_the_graph_gives_the_same_gradient(entries, monkeypatch):
    monkeypatch.setattr(head_module, "CHUNK_ENTRIES", entries)
    head = Head(layer(), softcap=0.8)
    hidden, targets, upstream = inputs()
    value = head.token_logps(hidden, targets) @ upstream
    first, second = (torch.autograd.grad(value, head.layer.weight, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(first, second)


def test_the_gradient_of_the_gradient_is_refused():
    head = Head(layer())
    hidden, targets, upstream = inputs()
    with pytest.raises(RuntimeError, match="a first derivative only; use plain_head"):
        torch.autograd.grad(head.token_logps(hidden, targets) @ upstream, hidden, create_graph=True)


def test_weights_that_moved_before_backward_are_noticed():
    head = Head(layer())
    hidden, targets, upstream = inputs()
    value = head.token_logps(hidden, targets) @ upstream
    with torch.no_grad():
        head.layer.weight += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.backward()


def test_a_frozen_matrix_passes_the_gradient_on_and_gets_none():
    head = Head(layer().requires_grad_(False))
    hidden, targets, upstream = inputs()
    ours, theirs = (f(hidden, targets) @ upstream for f in (head.token_logps, lambda h, t: plain(head, h, t)))
    (mine,), (other,) = torch.autograd.grad(ours, hidden), torch.autograd.grad(theirs, hidden)
    torch.testing.assert_close(mine, other, rtol=0, atol=1e-12)
    assert head.layer.weight.grad is None


@pytest.mark.parametrize("entries", [VOCABULARY * POSITIONS, VOCABULARY * 4])
@pytest.mark.parametrize("bias", [False, True])
def test_under_autocast_products_are_bf16_and_sums_fp32(bias, entries, monkeypatch):
    monkeypatch.setattr(head_module, "CHUNK_ENTRIES", entries)
    head = Head(layer(bias, torch.float32), softcap=3.0)
    hidden, targets, upstream = inputs(torch.float32)
    leaves = [hidden, *head.layer.parameters()]
    with torch.autocast("cpu", torch.bfloat16):
        ours, theirs = head.token_logps(hidden, targets), plain(head, hidden, targets)
    exact = plain(head, hidden, targets)
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)  # the same rounded products
    assert (ours - exact).abs().max() > 1e-5  # which are rounded
    gradients = [torch.autograd.grad(value @ upstream.float(), leaves) for value in (ours, theirs, exact)]
    for mine, autocasts, truth, leaf in zip(*gradients, leaves, strict=True):
        assert mine.dtype == leaf.dtype
        assert (mine - truth).norm() <= 2 * (autocasts - truth).norm() + 1e-3 * truth.norm()


def test_a_bf16_layer_has_fp32_log_probs_and_bf16_gradients():
    head = Head(layer(dtype=torch.bfloat16))
    hidden, targets, upstream = inputs(torch.bfloat16)
    ours = head.token_logps(hidden, targets)
    assert ours.dtype == torch.float32
    mine = torch.autograd.grad(ours @ upstream.float(), [hidden, head.layer.weight])
    theirs = torch.autograd.grad(plain(head, hidden, targets) @ upstream.float(), [hidden, head.layer.weight])
    for a, b in zip(mine, theirs, strict=True):
        assert a.dtype == torch.bfloat16
        torch.testing.assert_close(a, b, rtol=0.05, atol=0.05)


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


def hooked():
    found = layer()
    found.register_forward_hook(lambda module, args, output: output * 2)
    return found


@pytest.mark.parametrize("make", [lambda: Doubled(HIDDEN, VOCABULARY, dtype=torch.float64), hooked])
@pytest.mark.parametrize("entries", [VOCABULARY * POSITIONS, VOCABULARY * 4])
def test_a_layer_that_is_more_than_a_matrix_goes_through_its_own_forward(make, entries, monkeypatch):
    monkeypatch.setattr(head_module, "CHUNK_ENTRIES", entries)
    head = Head(make())
    assert not head.fused
    hidden, targets, upstream = inputs()
    ours, theirs = head.token_logps(hidden, targets) @ upstream, plain(head, hidden, targets) @ upstream
    torch.testing.assert_close(ours, theirs)
    leaves = [hidden, head.layer.weight]
    for mine, other in zip(torch.autograd.grad(ours, leaves), torch.autograd.grad(theirs, leaves), strict=True):
        torch.testing.assert_close(mine, other)


def test_no_position_at_all_is_no_error():
    head = Head(layer())
    hidden, targets, _ = inputs()
    ours = head.token_logps(hidden[:0], targets[:0])
    ours.sum().backward()
    assert ours.shape == (0,)
    assert not head.layer.weight.grad.any()


@pytest.mark.parametrize("entries", [VOCABULARY * POSITIONS, VOCABULARY * 4])
def test_a_plain_head_has_a_second_derivative(entries, monkeypatch):
    """In chunks too, which are made again in backward."""
    monkeypatch.setattr(head_module, "CHUNK_ENTRIES", entries)
    head = Head(layer(), softcap=0.8)
    hidden, targets, upstream = inputs()
    leaves = [hidden, head.layer.weight]
    products = []
    for logps in (head.token_logps, lambda *given: plain(head, *given)):
        with plain_head():
            assert not head.fused
            value = logps(hidden, targets) @ upstream
        slopes = torch.autograd.grad(value, leaves, create_graph=True)
        products.append(torch.autograd.grad(slopes, leaves, [slope.detach().cos() for slope in slopes]))
    assert head.fused
    for mine, other in zip(*products, strict=True):
        assert other.abs().max() > 1e-3
        torch.testing.assert_close(mine, other)
