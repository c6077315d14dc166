"""What second derivatives refuse, and that nothing is left behind."""

import numpy as np
import pytest
import torch

import tiny
from gapo.diagnostics.second_order import Hessian, head_hessian, hessian, mean_loss, mean_margin, smooth
from gapo.diagnostics.spectrum import extreme_eigenvalues
from gapo.errors import InputError
from gapo.model.head import head_of
from gapo.objectives import get_objective
from gapo.pairs.collate import collate


@pytest.fixture
def batch(encoded_pairs):
    return collate(encoded_pairs, tiny.PAD)


def test_the_model_is_as_before(llama, batch):
    before = [(p.detach().clone(), p.grad, p.requires_grad) for p in llama.parameters()]
    extreme_eigenvalues(head_hessian(llama, batch, mean_margin(len(batch))), top=1)
    hessian(llama, batch, mean_margin(len(batch)), list(llama.parameters())[:2]).gradient  # noqa: B018
    for parameter, (value, gradient, trained) in zip(llama.parameters(), before, strict=True):
        assert torch.equal(parameter, value)
        assert parameter.grad is gradient
        assert parameter.requires_grad == trained
    assert head_of(llama).fused


def test_smooth_ends_with_an_error_inside(llama):
    with pytest.raises(KeyError), smooth(llama):
        assert not head_of(llama).fused
        raise KeyError
    assert head_of(llama).fused
    assert torch.ones(1).float().dtype == torch.float32


def test_attention_without_a_second_derivative_is_refused_by_name(llama):
    llama.config._attn_implementation = "flash_attention_2"
    with (
        pytest.raises(InputError, match=r"flash_attention_2 has no second derivative; .*'sdpa' or 'eager'"),
        smooth(llama),
    ):
        pass


def test_frozen_or_missing_parameters_are_refused(llama, batch):
    llama.requires_grad_(False)
    for parameters in ([], list(llama.parameters())):
        with pytest.raises(InputError, match="trained parameters"):
            hessian(llama, batch, mean_margin(len(batch)), parameters)


def test_a_head_with_a_hook_is_refused(llama, batch):
    llama.lm_head.register_forward_hook(lambda module, args, output: output * 2)
    with pytest.raises(InputError, match="more than a matrix"):
        head_hessian(llama, batch, mean_margin(len(batch)))


def test_a_loss_says_what_it_needs():
    with pytest.raises(InputError, match="gapo needs anchor to have a loss"):
        mean_loss(get_objective("gapo"), 5)
    with pytest.raises(InputError, match="dr_dpo mixes the pairs"):
        mean_loss(get_objective("dr_dpo"), 5, {"reference": None})


def of_diagonal(entries):
    """f = 1/2 sum_k d_k w_k^2, so that H is known."""
    weight = torch.ones(len(entries), dtype=torch.float64, requires_grad=True)
    return Hessian(lambda: [(torch.tensor(entries, dtype=torch.float64) * weight**2).sum() / 2], [weight])


def test_a_known_spectrum():
    found = extreme_eigenvalues(of_diagonal([*range(-4, 30)]), top=5, bottom=2)
    np.testing.assert_allclose(found.top, [29, 28, 27, 26, 25], rtol=1e-6)
    np.testing.assert_allclose(found.bottom, [-4, -3], rtol=1e-6)
    assert found.top_mean == pytest.approx(27)
    assert found.products > 7


def test_a_function_without_curvature_has_none():
    weight = torch.ones(30, dtype=torch.float64, requires_grad=True)
    found = extreme_eigenvalues(Hessian(lambda: [weight.sum()], [weight]))
    assert (found.lambda_max, found.lambda_min, found.top_mean, found.residual) == (0, 0, 0, 0)


def test_what_cannot_be_found_is_refused():
    with pytest.raises(InputError, match="ask for fewer"):
        extreme_eigenvalues(of_diagonal([1.0, 2.0, 3.0]))
    with pytest.raises(InputError, match="not finite"):
        extreme_eigenvalues(of_diagonal([float("nan"), *range(20)]))
